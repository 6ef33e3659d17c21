// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/store_type.h"

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"

namespace lockstep::kvstore {
namespace {

constexpr std::array kTypes{StoreType{"local", nullptr}, StoreType{"allreduce", allreduce_mode}};

struct Alias {
  std::string_view name, means;
};
constexpr std::array kAliases{Alias{"device", "local"},
                              Alias{"dist_sync", "allreduce"},
                              Alias{"dist", "allreduce"},
                              Alias{"dist_device_sync", "allreduce"},
                              Alias{"dist_sync_device", "allreduce"},
                              Alias{"horovod", "allreduce"}};

constexpr std::array<std::string_view, 7> kToCome{
    "ps_sync", "ps_async", "ps_ssp", "dist_async", "dist_device_async", "p3store_dist", "byteps"};

}  // namespace

const StoreType& find_store_type(std::string_view name) {
  for (const Alias& alias : kAliases)
    if (alias.name == name) return find_store_type(alias.means);
  for (const StoreType& type : kTypes)
    if (type.name == name) return type;
  if (std::find(kToCome.begin(), kToCome.end(), name) != kToCome.end())
    throw Unsupported(
        "kvstore '{}': there are no parameter servers yet; expected local or allreduce", name);
  throw InvalidArgument(
      "kvstore '{}': expected local or allreduce, or MXNet's device, dist_sync, dist_device_sync "
      "or horovod",
      name);
}

}  // namespace lockstep::kvstore
