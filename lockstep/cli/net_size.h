// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "lockstep/recipes/run_config.h"

namespace lockstep::cli {

// --width and --blocks, of recipes whose net comes in sizes.
void add_net_size(CLI::App& command, const char* group, std::optional<std::int64_t>& width,
                  std::optional<std::int64_t>& blocks);

// Throws WrongUsage where the recipe has no such size.
void check_net_size(const recipes::RunConfig& config);

}  // namespace lockstep::cli
