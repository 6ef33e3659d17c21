// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/store_type.h"

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"

namespace lockstep::kvstore {
namespace {

struct Name {
  std::string_view name;
  StoreType type;
};
constexpr std::array kNames{Name{"local", StoreType::local},
                            Name{"device", StoreType::local},
                            Name{"allreduce", StoreType::allreduce},
                            Name{"dist_sync", StoreType::allreduce},
                            Name{"dist", StoreType::allreduce},
                            Name{"dist_device_sync", StoreType::allreduce},
                            Name{"dist_sync_device", StoreType::allreduce},
                            Name{"horovod", StoreType::allreduce}};

constexpr std::array<std::string_view, 7> kToCome{
    "ps_sync", "ps_async", "ps_ssp", "dist_async", "dist_device_async", "p3store_dist", "byteps"};

}  // namespace

StoreType parse_store_type(std::string_view name) {
  for (const Name& entry : kNames)
    if (entry.name == name) return entry.type;
  if (std::find(kToCome.begin(), kToCome.end(), name) != kToCome.end())
    throw Unsupported(
        "kvstore '{}': there are no parameter servers yet; expected local or allreduce", name);
  throw InvalidArgument(
      "kvstore '{}': expected local or allreduce, or MXNet's device, dist_sync, dist_device_sync "
      "or "
      "horovod",
      name);
}

std::string_view to_string(StoreType type) {
  return type == StoreType::local ? "local" : "allreduce";
}

}  // namespace lockstep::kvstore
