// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/data_limits.h"

#include <fmt/core.h>

#include "lockstep/cli/options.h"

namespace lockstep::cli {
namespace {

// Whatever is counted in bytes stays far from the end of 64 bits.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 40;

}  // namespace

void add_limits(CLI::App& command, DataLimits& limits, const char* group) {
  const recipes::RunConfig usual;
  add_count(command, group, "--max-pixels", limits.max_pixels, "N",
            "Of an image, which may take 8 bytes for each while it is decoded; a larger one is bad",
            1, kMostPixels)
      ->default_str(fmt::format("{}", usual.max_pixels));
  add_count(command, group, "--max-inflated", limits.max_inflated, "MB",
            "Of a gzip file's contents; a larger one is bad", 1, kMostMegabytes)
      ->default_str(fmt::format("{}", usual.max_inflated / kMegabyte));
}

void apply_limits(recipes::RunConfig& config, const DataLimits& limits) {
  if (limits.max_pixels) config.max_pixels = *limits.max_pixels;
  if (limits.max_inflated) config.max_inflated = *limits.max_inflated * kMegabyte;
}

}  // namespace lockstep::cli
