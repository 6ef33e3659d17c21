// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/recipes/run_files.h"

namespace lockstep::cli {

// What `lockstep predict` asks a recommender.
struct Recommendations {
  std::string user;
  bool all = false;
};

void add_recommending(CLI::App& command, Recommendations& options);

// Items for a user, or the scores of each file's pairs. Throws WrongUsage.
int recommend(const recipes::TrainedModel& model, const Recommendations& options,
              const std::vector<std::string>& files, std::optional<std::int64_t> top, bool json);

}  // namespace lockstep::cli
