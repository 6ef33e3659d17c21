// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/train_mode.h"

#include <fmt/core.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"
#include "lockstep/kvstore/allreduce.h"
#include "lockstep/kvstore/store_type.h"
#include "lockstep/recipes/run_mode.h"

namespace lockstep::cli {
namespace {

constexpr std::int64_t kMostReplicas = 2;  // a primary and its backup
constexpr std::int64_t kUsualStaleness = 3;

// A name that is not known is wrong usage; one that is to come is not.
template <class Parse>
auto parsed(const char* option, const Parse& parse) {
  try {
    return parse();
  } catch (const InvalidArgument& error) {
    throw WrongUsage(fmt::format("{}: {}", option, error.what()));
  }
}

// By our names.
std::string store_name(const std::string& given, bool has_servers) {
  return parsed("--kvstore",
                [&] { return std::string(kvstore::find_store_type(given, has_servers).name); });
}

// How many the job has, or is to have, before its store is known.
std::int64_t wanted_servers(const recipes::RunConfig& config, const TrainOptions& options) {
  if (options.job_servers && options.servers && *options.servers != *options.job_servers)
    throw WrongUsage(fmt::format("--servers {}: this job has {}; leave it out", *options.servers,
                                 *options.job_servers));
  if (options.job_servers) return *options.job_servers;
  if (options.servers) return *options.servers;
  return options.kvstore ? 0 : config.servers;
}

[[noreturn]] void refuse_servers(const recipes::RunConfig& config, std::int64_t servers) {
  if (config.kvstore.empty())
    throw WrongUsage(fmt::format(
        "--servers {} without --kvstore: expected --kvstore ps_sync, ps_async or ps_ssp", servers));
  throw WrongUsage(
      fmt::format("--servers {} with --kvstore {}: it has none; expected ps_sync, ps_async or "
                  "ps_ssp, or no servers",
                  servers, config.kvstore));
}

void take_servers(recipes::RunConfig& config, const TrainOptions& options, std::int64_t servers) {
  const bool is_served = recipes::has_servers(config);
  if (!is_served && servers > 0) refuse_servers(config, servers);
  if (is_served && options.job_servers && servers == 0)
    throw WrongUsage(
        fmt::format("--kvstore {}: this job has no servers; expected some from whoever started it: "
                    "lockstep launch --servers N, or LOCKSTEP_SERVERS",
                    config.kvstore));
  config.servers = is_served ? std::max<std::int64_t>(servers, 1) : 0;
}

void take_replicas(recipes::RunConfig& config, const TrainOptions& options) {
  if (options.kvstore && config.servers == 0) config.replicas = 1;
  if (options.replicas) config.replicas = *options.replicas;
  if (config.replicas == 1) return;
  if (config.servers == 0)
    throw WrongUsage(
        fmt::format("--replicas {} without servers: expected --kvstore ps_sync, "
                    "ps_async or ps_ssp",
                    config.replicas));
  if (config.replicas > config.servers)
    throw WrongUsage(fmt::format("--replicas {} with --servers {}: each has a server of its own",
                                 config.replicas, config.servers));
  if (config.replicas > kMostReplicas)
    throw WrongUsage(
        fmt::format("--replicas {}: expected 1 or {}", config.replicas, kMostReplicas));
}

void take_staleness(recipes::RunConfig& config, const TrainOptions& options) {
  const bool is_bounded = config.kvstore == "ps_ssp";
  if (options.staleness && !is_bounded)
    throw WrongUsage(fmt::format("--staleness {} without --kvstore ps_ssp: it bounds that one",
                                 *options.staleness));
  const std::int64_t before = config.staleness > 0 ? config.staleness : kUsualStaleness;
  config.staleness = is_bounded ? options.staleness.value_or(before) : 0;
}

void take_stale_gradients(recipes::RunConfig& config, const TrainOptions& options) {
  const bool is_in_step = recipes::is_in_step(config);
  if (options.stale_gradients && is_in_step)
    throw WrongUsage(fmt::format(
        "--stale-gradients {} without --kvstore ps_async or ps_ssp: workers in step have none",
        *options.stale_gradients));
  const std::string before = config.stale_gradients.empty() ? "damped" : config.stale_gradients;
  config.stale_gradients = is_in_step ? "" : options.stale_gradients.value_or(before);
}

void check_served(const recipes::RunConfig& config) {
  if (config.servers > 0 && config.algorithm != "tree")
    throw WrongUsage(
        fmt::format("--algorithm {} with --kvstore {}: servers add in the order of the tree; leave "
                    "it out",
                    config.algorithm, config.kvstore));
}

void check_together(const recipes::RunConfig& config, std::int64_t workers,
                    const std::string& transport) {
  if (config.kvstore == "local" && workers > 1)
    throw WrongUsage(fmt::format(
        "--kvstore local with --workers {}: it is within one process; expected allreduce",
        workers));
  if (config.algorithm == "native" && workers > 1 && transport != "mpi")
    throw WrongUsage(fmt::format(
        "--algorithm native with --transport {}: it has no all-reduce of its own; expected "
        "--transport mpi, in mpirun",
        transport.empty() ? "auto" : transport));
  if (config.compression != "none" && config.algorithm != "tree")
    throw WrongUsage(fmt::format(
        "--compression {} with --algorithm {}: compressed gradients are gathered, not added on "
        "their way; leave the algorithm out",
        config.compression, config.algorithm));
}

// Whoever is lost takes a part along that nobody else has.
void check_shard_state(const recipes::RunConfig& config, const TrainOptions& options) {
  if (parsed("--shard-state", [&] { return kvstore::parse_shard_state(options.shard_state); }) ==
      kvstore::ShardState::none)
    return;
  if (config.servers > 0)
    throw WrongUsage(fmt::format(
        "--shard-state {} with --kvstore {}: servers keep what the optimizer keeps; leave it out",
        options.shard_state, config.kvstore));
  if (options.mesh.stages() > 1)
    throw WrongUsage(fmt::format(
        "--shard-state {} with --pipeline {}: a stage's worker has all of its segments' state; "
        "leave one of them out",
        options.shard_state, options.mesh.stages()));
  if (options.mesh.tensor() > 1)
    throw WrongUsage(fmt::format(
        "--shard-state {} with --tensor {}: a worker has all of its slices' state; leave one of "
        "them out",
        options.shard_state, options.mesh.tensor()));
  if (config.slices > 1)
    throw WrongUsage(fmt::format("--shard-state {} with --slices {}: leave one of them out",
                                 options.shard_state, config.slices));
  if (options.min_workers || options.max_workers)
    throw WrongUsage(fmt::format(
        "--shard-state {} with {}: a worker that is lost takes its part of the state along, so "
        "their number cannot change; leave one of them out",
        options.shard_state, options.min_workers ? "--min-workers" : "--max-workers"));
}

}  // namespace

void apply_mode_options(recipes::RunConfig& config, const TrainOptions& options,
                        std::int64_t workers) {
  const std::int64_t servers = wanted_servers(config, options);
  if (options.kvstore) config.kvstore = store_name(*options.kvstore, servers > 0);
  take_servers(config, options, servers);
  take_replicas(config, options);
  take_staleness(config, options);
  take_stale_gradients(config, options);
  if (options.algorithm) {
    parsed("--algorithm", [&] { return kvstore::parse_algorithm(*options.algorithm); });
    config.algorithm = *options.algorithm;
  }
  if (options.compression)
    config.compression = parsed("--compression", [&] {
      return kvstore::to_string(kvstore::parse_compression(*options.compression));
    });
  check_served(config);
  check_shard_state(config, options);
  check_together(config, workers, options.connect.transport_name());
}

}  // namespace lockstep::cli
