// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/optim/optimizer.h"
#include "lockstep/optim/schedule.h"

namespace lockstep::recipes {

// How a recipe learns, as plain values: what a command line changes and a run folder keeps.
struct Learning {
  std::string optimizer = "sgd";  // one of optim::optimizer_names()
  double learning_rate = 0.1;
  // By the names that optim::make_optimizer knows: momentum, wd, clip_norm, beta1, ...
  std::map<std::string, double> parameters = {};
  std::string schedule = "cosine";  // one of schedule_names()
  double warm_up = 0.0;             // the part of all steps in which the rate rises to its value
};

// Throw NotFound with the names there are, InvalidArgument for a value that cannot be meant.
optim::OptimizerPtr make_optimizer(const Learning& learning);
optim::Schedule make_schedule(const Learning& learning, std::int64_t steps);
std::vector<std::string> schedule_names();

}  // namespace lockstep::recipes
