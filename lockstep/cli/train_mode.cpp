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

}  // namespace

void apply_mode_options(recipes::RunConfig& config, const TrainOptions& options,
                        std::int64_t workers) {
  if (options.kvstore)
    config.kvstore = parsed(
        "--kvstore", [&] { return std::string(kvstore::find_store_type(*options.kvstore).name); });
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

}  // namespace lockstep::cli
