// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/run_mode.h"

#include <fmt/core.h>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/kvstore/store_type.h"

namespace lockstep::recipes {
namespace {

bool compresses(const RunConfig& config) { return config.compression != "none"; }

const kvstore::StoreType& own_store(const RunConfig& config) {
  return kvstore::find_store_type(config.kvstore.empty() ? "local" : config.kvstore);
}

// What is within one process for one worker is an all-reduce for several.
const kvstore::StoreType& store_between_workers(const RunConfig& config) {
  const kvstore::StoreType& own = own_store(config);
  return own.is_local() ? kvstore::find_store_type("allreduce") : own;
}

}  // namespace

bool has_servers(const RunConfig& config) { return own_store(config).needs_servers; }

bool is_in_step(const RunConfig& config) { return own_store(config).in_step; }

void check_supported(const RunConfig& config) {
  if (!is_in_step(config) && compresses(config))
    throw Unsupported(
        "kvstore '{}': gradients are not compressed, expected compression none, got {}",
        config.kvstore, config.compression);
}

std::string kvstore_of(const RunConfig& config, std::int64_t workers) {
  return std::string((workers > 1 ? store_between_workers(config) : own_store(config)).name);
}

bool is_invariant(const RunConfig& config) {
  return is_in_step(config) && !compresses(config) &&
         kvstore::is_canonical(kvstore::parse_algorithm(config.algorithm));
}

std::string promise_of(const RunConfig& config, std::int64_t workers, std::int64_t since) {
  if (is_invariant(config)) return "the same bits on any number of threads and workers";
  if (!is_in_step(config))
    return fmt::format("with {} the bits depend on which worker was faster", config.kvstore);
  const std::string& how = compresses(config) ? config.compression : config.algorithm;
  const std::string count = fmt::format("{} worker{}", workers, workers == 1 ? "" : "s");
  if (since == 0)
    return fmt::format("the same bits on any number of threads, but with {} for {} only", how,
                       count);
  return fmt::format(
      "the same bits on any number of threads, but with {} only for the workers that each step had "
      "(since step {}: {})",
      how, since, count);
}

// One worker compresses too, and has a ring of its own, so that its run can go on with more of
// them. A transport's own sum is nothing that one worker can have.
RunMode::RunMode(comm::Communicator* communicator, const Membership& membership,
                 const RunConfig& config, std::chrono::milliseconds timeout,
                 const kvstore::ServedJob* servers, kvstore::ShardState shard_state,
                 const kvstore::ReplicaShape& shape) {
  const bool alone = communicator == nullptr && !has_servers(config);
  if (alone && (is_invariant(config) || config.algorithm == "native")) {
    mode_ = kvstore::local_mode();
    return;
  }
  if (alone) {
    group_ = std::make_unique<comm::InProcessGroup>(std::vector<std::string>{"localhost"});
    alone_ = std::make_unique<comm::Communicator>(group_->connect(0));
    communicator = alone_.get();
  }
  kvstore::AllReduceOptions options;
  options.algorithm = kvstore::parse_algorithm(config.algorithm);
  options.compression = kvstore::parse_compression(config.compression);
  options.timeout = timeout;
  options.shard_state = shard_state;
  if (shape.workers() > 1 && communicator != nullptr) {
    mode_ = kvstore::mesh_mode(*communicator, membership, shape, options);
    return;
  }
  mode_ =
      store_between_workers(config).make({.communicator = communicator,
                                          .membership = membership,
                                          .servers = servers,
                                          .staleness = static_cast<std::uint64_t>(config.staleness),
                                          .damps_stale = config.stale_gradients != "whole"},
                                         options);
}

RunMode RunMode::of_latecomer(const RunConfig& config, std::chrono::milliseconds timeout) {
  if (!has_servers(config)) return {nullptr, alone(), config, timeout};
  RunMode made;
  made.mode_ = is_in_step(config)
                   ? kvstore::latecomers_mode(
                         {.compression = kvstore::parse_compression(config.compression)})
                   : kvstore::latecomers_mode_out_of_step();
  return made;
}

std::shared_ptr<kvstore::Mode> mode_of_generation(comm::Communicator* communicator,
                                                  const Membership& membership,
                                                  const RunConfig& config,
                                                  std::chrono::milliseconds timeout,
                                                  const kvstore::ServedJob* servers) {
  const auto made = std::make_shared<RunMode>(communicator, membership, config, timeout, servers);
  return {made, &made->get()};
}

}  // namespace lockstep::recipes
