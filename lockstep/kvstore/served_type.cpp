// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/served_type.h"

#include <array>

namespace lockstep::kvstore {
namespace {

struct ServedName {
  std::string_view name, means;
  bool needs_servers = false;  // without them it is a store of workers alone
};

constexpr std::array kNames{ServedName{"ps_sync", "ps_sync"},
                            ServedName{"ps_async", "ps_async"},
                            ServedName{"ps_ssp", "ps_ssp"},
                            ServedName{"dist_async", "ps_async"},
                            ServedName{"dist_device_async", "ps_async"},
                            ServedName{"dist_sync", "ps_sync", true},
                            ServedName{"dist", "ps_sync", true},
                            ServedName{"dist_device_sync", "ps_sync", true},
                            ServedName{"dist_sync_device", "ps_sync", true}};

}  // namespace

std::string_view find_served_type(std::string_view name, bool has_servers) {
  for (const ServedName& one : kNames)
    if (one.name == name && (has_servers || !one.needs_servers)) return one.means;
  return {};
}

}  // namespace lockstep::kvstore
