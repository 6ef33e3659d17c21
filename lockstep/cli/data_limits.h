// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "lockstep/recipes/run_config.h"

namespace lockstep::cli {

inline constexpr std::int64_t kMegabyte = 1 << 20, kMostMegabytes = std::int64_t{1} << 30;

// What files of data may ask for, where the command line says it.
struct DataLimits {
  std::optional<std::int64_t> max_pixels;
  std::optional<std::int64_t> max_inflated;  // MB
};

void add_limits(CLI::App& command, DataLimits& limits, const char* group);
void apply_limits(recipes::RunConfig& config, const DataLimits& limits);

}  // namespace lockstep::cli
