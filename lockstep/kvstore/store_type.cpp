// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/store_type.h"

#include <array>

#include "lockstep/base/error.h"

namespace lockstep::kvstore {
namespace {

std::unique_ptr<Mode> make_allreduce(const JobParts& job, const AllReduceOptions& options) {
  check(job.communicator != nullptr, "an all-reduce without a communicator");
  return allreduce_mode(*job.communicator, job.membership, options);
}

std::unique_ptr<Mode> make_in_step(const JobParts& job, const AllReduceOptions& options) {
  return ps_mode(servers_of(job, "ps_sync"), job.communicator, job.membership,
                 {.compression = options.compression});
}

std::unique_ptr<Mode> make_out_of_step(const JobParts& job, const AllReduceOptions& options,
                                       std::string_view type, const OutOfStepOptions& pace) {
  if (!options.compression.is_none())
    throw Unsupported(
        "kvstore '{}': gradients are not compressed, expected compression none, got {}", type,
        to_string(options.compression));
  return out_of_step_mode(servers_of(job, type), job.communicator, job.membership, pace);
}

std::unique_ptr<Mode> make_async(const JobParts& job, const AllReduceOptions& options) {
  return make_out_of_step(job, options, "ps_async", {.damps_stale = job.damps_stale});
}

std::unique_ptr<Mode> make_bounded(const JobParts& job, const AllReduceOptions& options) {
  return make_out_of_step(job, options, "ps_ssp",
                          {.bound = job.staleness, .damps_stale = job.damps_stale});
}

constexpr std::array kTypes{
    StoreType{.name = "local", .make = nullptr},
    StoreType{.name = "allreduce", .make = make_allreduce},
    StoreType{.name = "ps_sync", .make = make_in_step, .needs_servers = true},
    StoreType{.name = "ps_async", .make = make_async, .needs_servers = true, .in_step = false},
    StoreType{.name = "ps_ssp",
              .make = make_bounded,
              .needs_servers = true,
              .in_step = false,
              .is_bounded = true}};

// What MXNet calls them: with servers, and without.
struct Alias {
  std::string_view name, with_servers, without;
};
constexpr std::array kAliases{Alias{"device", "local", "local"},
                              Alias{"horovod", "allreduce", "allreduce"},
                              Alias{"byteps", "ps_sync", "allreduce"},
                              Alias{"dist", "ps_sync", "allreduce"},
                              Alias{"dist_sync", "ps_sync", "allreduce"},
                              Alias{"dist_device_sync", "ps_sync", "allreduce"},
                              Alias{"dist_sync_device", "ps_sync", "allreduce"},
                              Alias{"p3store_dist", "ps_sync", "allreduce"},
                              Alias{"dist_async", "ps_async", "ps_async"},
                              Alias{"dist_device_async", "ps_async", "ps_async"},
                              Alias{"dist_async_device", "ps_async", "ps_async"}};

}  // namespace

const ServedJob& servers_of(const JobParts& job, std::string_view type) {
  if (job.servers == nullptr)
    throw InvalidArgument("kvstore '{}': needs servers, and the job has none", type);
  return *job.servers;
}

const StoreType& find_store_type(std::string_view name, bool has_servers) {
  for (const Alias& alias : kAliases)
    if (alias.name == name)
      return find_store_type(has_servers ? alias.with_servers : alias.without, has_servers);
  for (const StoreType& type : kTypes)
    if (type.name == name) return type;
  throw InvalidArgument(
      "kvstore '{}': expected local, allreduce, ps_sync, ps_async or ps_ssp, or MXNet's device, "
      "dist_sync, dist_device_sync, dist_async or horovod",
      name);
}

}  // namespace lockstep::kvstore
