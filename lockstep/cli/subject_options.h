// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli/mesh_options.h"

namespace lockstep::cli {

// The run that a command is asked about, before there is one: of `lockstep plan` and `lockstep
// simulate`.
struct SubjectOptions {
  std::string recipe;
  MeshOptions mesh;
  std::optional<std::int64_t> workers, global_batch, shards, width, blocks;
  std::int64_t threads = 0;  // 0: a worker's share of this machine
};

void add_subject_options(CLI::App& command, SubjectOptions& options, const char* group);

// Throws WrongUsage.
recipes::RunConfig config_of(const SubjectOptions& options);

}  // namespace lockstep::cli
