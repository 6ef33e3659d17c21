// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/recipes/plan_run.h"

namespace lockstep::cli {

// All placements, the best first, and why the others are not: a table, and as JSON. `command` takes
// the best one.
std::string ranking_text(const recipes::RunPlan& plan, const std::string& command);
std::string ranking_json(const recipes::RunPlan& plan, const std::string& command);

// "data 2 x pipeline 1, a step of 120.3 ms, 310 MB a worker".
std::string candidate_text(const parallel::Candidate& candidate);

}  // namespace lockstep::cli
