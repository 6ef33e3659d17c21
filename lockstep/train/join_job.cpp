// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/join_job.h"

#include <cstdlib>

#include "lockstep/cluster/membership/scheduler.h"
#include "lockstep/kvstore/allreduce.h"
#include "lockstep/train/parameter_server.h"
#include "lockstep/train/same_bits.h"

namespace lockstep::train {
namespace {

ServersOptions servers_options(const cluster::JobOptions& options) {
  return {.replicas = options.tolerates_lost_servers ? 2 : 1, .timeout = options.timeout};
}

// As a process that is no worker: until the job is over.
void be_useful(const cluster::Place& place, const cluster::JobOptions& options) {
  if (place.is_scheduler) return cluster::run_scheduler(place, {.timeout = options.timeout});
  cluster::Job job(place, options);
  run_parameter_server(job, servers_options(options));
}

constexpr const char* kInstructionSet = "job/instruction set";  // in the job's registry

// The others have agreed already.
void agree_with_others(cluster::Job& job, const cluster::JobOptions& options) {
  const std::string set = job.get(kInstructionSet, options.timeout).bytes;
  agree_on_instruction_set(*kvstore::group_of_one(), parse_instruction_set(set));
}

void agree(cluster::Job& job, const cluster::JobOptions& options) {
  if (job.is_late()) return agree_with_others(job, options);
  const auto group = job.size() > 1
                         ? kvstore::group_of(job.communicator(), job.membership(), options.timeout)
                         : kvstore::group_of_one();
  const InstructionSet set =
      agree_on_instruction_set(*group, servers_instruction_set(job, options.timeout));
  if (job.survives() && job.rank() == 0) job.put(kInstructionSet, std::string(to_string(set)));
}

void take_pace(kvstore::JobParts& parts, const JobStore& store) {
  parts.staleness = store.staleness;
  parts.damps_stale = store.damps_stale;
}

std::unique_ptr<Survival> survival_of(cluster::Job* job, const cluster::JobOptions& options,
                                      const JobStore& store, bool has_servers,
                                      std::unique_ptr<kvstore::Mode>& first) {
  if (job == nullptr || !job->survives()) return nullptr;
  const auto make = [=](comm::Communicator* communicator, const Membership& members) {
    const kvstore::StoreType& type = kvstore::find_store_type(store.name, has_servers);
    if (!type.needs_servers)
      return std::shared_ptr<kvstore::Mode>(
          communicator == nullptr
              ? kvstore::local_mode()
              : kvstore::allreduce_mode(*communicator, members, {.timeout = options.timeout}));
    const kvstore::ServedJob servers = servers_of(*job, servers_options(options));
    kvstore::JobParts parts{communicator, members, &servers};
    take_pace(parts, store);
    return std::shared_ptr<kvstore::Mode>(type.make(parts, {}));
  };
  return survive(*job, make, std::move(first));
}

std::unique_ptr<kvstore::Mode> latecomers_mode(const kvstore::StoreType& type) {
  return type.in_step ? kvstore::latecomers_mode() : kvstore::latecomers_mode_out_of_step();
}

void check_shard_state(const OwnJob& own, const JobStore& store, const kvstore::StoreType& type) {
  if (store.shard_state == kvstore::ShardState::none) return;
  if (type.needs_servers)
    throw Unsupported("shard-state with kvstore '{}': servers keep what the optimizer keeps",
                      type.name);
  if (own.job && own.job->survives())
    throw Unsupported(
        "shard-state of a job that survives losses: a worker that is lost takes its part of the "
        "state along, expected JobOptions::survives false");
}

// What a process alone does within itself, and workers by an all-reduce.
std::unique_ptr<kvstore::Mode> mode_of(const OwnJob& own, const JobStore& store) {
  const kvstore::StoreType& type = kvstore::find_store_type(store.name, own.servers != nullptr);
  check_shard_state(own, store, type);
  const bool is_late = own.job && own.job->is_late();
  if (is_late && type.needs_servers) return latecomers_mode(type);
  if (is_late) return kvstore::local_mode();
  kvstore::JobParts parts = own.parts();
  take_pace(parts, store);
  if (type.needs_servers) return type.make(parts, {});
  if (!own.job) return kvstore::local_mode();
  return kvstore::allreduce_mode(own.job->communicator(), parts.membership,
                                 {.shard_state = store.shard_state});
}

}  // namespace

std::shared_ptr<comm::Communicator> OwnJob::communicator() const {
  return job ? job->shared_communicator() : nullptr;
}

kvstore::JobParts OwnJob::parts() const {
  kvstore::JobParts parts;
  if (!job) return parts;
  parts.communicator = communicator().get();
  parts.membership = job->membership();
  parts.servers = servers.get();
  return parts;
}

OwnJob join_job(const cluster::JobOptions& options, const JobStore& store) {
  OwnJob own;
  std::optional<cluster::Place> place = cluster::find_place();
  if (place && options.survives) cluster::look_for_running_job(*place);
  if (place && (place->is_scheduler || place->role == Role::server)) {
    be_useful(*place, options);
    std::exit(0);
  }
  if (place) {
    own.job = std::make_unique<cluster::Job>(*place, options);
    agree(*own.job, options);
    if (place->servers > 0)
      own.servers =
          std::make_unique<kvstore::ServedJob>(servers_of(*own.job, servers_options(options)));
  } else {
    agree_on_instruction_set(*kvstore::group_of_one());
  }
  own.mode = mode_of(own, store);
  own.survival = survival_of(own.job.get(), options, store, own.servers != nullptr, own.mode);
  if (own.survival) own.mode = present_mode(*own.survival);
  return own;
}

}  // namespace lockstep::train
