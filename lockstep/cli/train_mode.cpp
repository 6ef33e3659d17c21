// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/train_mode.h"

#include <fmt/core.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"
#include "lockstep/kvstore/allreduce.h"
#include "lockstep/kvstore/store_type.h"

namespace lockstep::cli {
namespace {

// A name that is not known is wrong usage; one that is to come is not.
template <class Parse>
auto parsed(const char* option, const Parse& parse) {
  try {
    return parse();
  } catch (const InvalidArgument& error) {
    throw WrongUsage(fmt::format("{}: {}", option, error.what()));
  }
}

bool compresses(const RunConfig& config) { return config.compression != "none"; }

void check_together(const RunConfig& config, std::int64_t workers, const std::string& transport) {
  if (config.kvstore == "local" && workers > 1)
    throw WrongUsage(fmt::format(
        "--kvstore local with --workers {}: it is within one process; expected allreduce",
        workers));
  if (config.algorithm == "native" && workers > 1 && transport != "mpi")
    throw WrongUsage(fmt::format(
        "--algorithm native with --transport {}: it has no all-reduce of its own; expected "
        "--transport mpi, in mpirun",
        transport.empty() ? "auto" : transport));
  if (compresses(config) && config.algorithm != "tree")
    throw WrongUsage(fmt::format(
        "--compression {} with --algorithm {}: compressed gradients are gathered, not added on "
        "their way; leave the algorithm out",
        config.compression, config.algorithm));
}

}  // namespace

void apply_mode_options(RunConfig& config, const TrainOptions& options, std::int64_t workers) {
  if (options.kvstore)
    config.kvstore = parsed("--kvstore", [&] {
      return std::string(kvstore::to_string(kvstore::parse_store_type(*options.kvstore)));
    });
  if (options.algorithm) {
    parsed("--algorithm", [&] { return kvstore::parse_algorithm(*options.algorithm); });
    config.algorithm = *options.algorithm;
  }
  if (options.compression)
    config.compression = parsed("--compression", [&] {
      return kvstore::to_string(kvstore::parse_compression(*options.compression));
    });
  check_together(config, workers, options.connect.transport_name());
}

std::string kvstore_of(const RunConfig& config, std::int64_t workers) {
  if (workers > 1) return "allreduce";
  return config.kvstore.empty() ? "local" : config.kvstore;
}

bool is_invariant(const RunConfig& config) {
  return !compresses(config) && kvstore::is_canonical(kvstore::parse_algorithm(config.algorithm));
}

std::string promise_of(const RunConfig& config, std::int64_t workers, std::int64_t since) {
  if (is_invariant(config)) return "the same bits on any number of threads and workers";
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
TrainMode::TrainMode(comm::Communicator* communicator, const Membership& membership,
                     const RunConfig& config, std::chrono::milliseconds timeout) {
  if (communicator == nullptr && (is_invariant(config) || config.algorithm == "native")) {
    mode_ = kvstore::local_mode();
    return;
  }
  if (communicator == nullptr) {
    group_ = std::make_unique<comm::InProcessGroup>(std::vector<std::string>{"localhost"});
    alone_ = std::make_unique<comm::Communicator>(group_->connect(0));
    communicator = alone_.get();
  }
  kvstore::AllReduceOptions options;
  options.algorithm = kvstore::parse_algorithm(config.algorithm);
  options.compression = kvstore::parse_compression(config.compression);
  options.timeout = timeout;
  mode_ = kvstore::allreduce_mode(*communicator, membership, options);
}

}  // namespace lockstep::cli
