// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "lockstep/recipes/plan_run.h"

namespace lockstep::cli {

// The machines that a plan is for: of `lockstep plan`, `lockstep simulate` and `lockstep train`.
struct ClusterOptions {
  std::optional<std::int64_t> hosts;
  std::string hosts_file, links, doctor, memory_limit;
};

void add_cluster_options(CLI::App& command, ClusterOptions& options, const char* group);
void add_memory_limit(CLI::App& command, ClusterOptions& options, const char* group);

// Hosts, links and limit of a job of so many workers. Throws WrongUsage, NotFound, Corrupt.
recipes::PlanRunOptions plan_options(const ClusterOptions& options, std::int64_t workers);

// "2GB", "512MB": bytes. Throws WrongUsage, which begins with the option's name.
std::size_t parse_bytes(const std::string& option, const std::string& text);

}  // namespace lockstep::cli
