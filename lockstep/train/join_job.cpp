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

std::unique_ptr<Survival> survival_of(cluster::Job* job, std::chrono::milliseconds timeout) {
  if (job == nullptr || !job->survives()) return nullptr;
  return survive(*job, [timeout](comm::Communicator* communicator, const Membership& members) {
    return std::shared_ptr<kvstore::Mode>(
        communicator == nullptr
            ? kvstore::local_mode()
            : kvstore::allreduce_mode(*communicator, members, {.timeout = timeout}));
  });
}

// What a process alone does within itself, and workers by an all-reduce.
std::unique_ptr<kvstore::Mode> mode_of(const OwnJob& own, const JobStore& store) {
  const kvstore::StoreType& type = kvstore::find_store_type(store.name, own.servers != nullptr);
  kvstore::JobParts parts = own.parts();
  parts.staleness = store.staleness;
  parts.damps_stale = store.damps_stale;
  if (type.needs_servers) return type.make(parts, {});
  if (!own.job || own.job->is_late()) return kvstore::local_mode();
  return kvstore::allreduce_mode(own.job->communicator(), parts.membership);
}

}  // namespace

kvstore::JobParts OwnJob::parts() const {
  kvstore::JobParts parts;
  if (!job) return parts;
  parts.communicator = job->size() > 1 ? &job->communicator() : nullptr;
  parts.membership = job->membership();
  parts.servers = servers.get();
  return parts;
}

OwnJob join_job(const cluster::JobOptions& options, const JobStore& store) {
  OwnJob own;
  const std::optional<cluster::Place> place = cluster::find_place();
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
  own.survival = survival_of(own.job.get(), options.timeout);
  return own;
}

}  // namespace lockstep::train
