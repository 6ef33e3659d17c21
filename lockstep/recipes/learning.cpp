// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/learning.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/optim/optimizers.h"

namespace lockstep::recipes {
namespace {

// A run of a few steps has no room for every change of the rate.
std::vector<std::int64_t> distinct(std::vector<std::int64_t> steps) {
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  std::erase(steps, 0);
  return steps;
}

}  // namespace

std::vector<std::string> schedule_names() { return {"constant", "cosine", "linear", "steps"}; }

optim::OptimizerPtr make_optimizer(const Learning& learning) {
  if (!(learning.learning_rate > 0) || std::isinf(learning.learning_rate))
    throw InvalidArgument("learning rate: got {}, expected a number above 0",
                          learning.learning_rate);
  std::map<std::string, double> parameters = learning.parameters;
  parameters["learning_rate"] = learning.learning_rate;
  return optim::make_optimizer(learning.optimizer, parameters);
}

optim::Schedule make_schedule(const Learning& learning, std::int64_t steps) {
  if (!(learning.warm_up >= 0 && learning.warm_up < 1))
    throw InvalidArgument("warm-up: got {}, expected a part of the run, 0 up to 1",
                          learning.warm_up);
  const double rate = learning.learning_rate;
  const auto part = [steps](double p) {
    return static_cast<std::int64_t>(p * static_cast<double>(steps));
  };
  const optim::WarmUp warm_up{.steps = part(learning.warm_up)};
  if (learning.schedule == "constant") return optim::constant(rate, warm_up);
  if (learning.schedule == "cosine") return optim::cosine(rate, steps, 0.0, warm_up);
  if (learning.schedule == "linear") return optim::polynomial(rate, steps, 1.0, 0.0, warm_up);
  if (learning.schedule == "steps")
    return optim::multi_factor(rate, distinct({part(0.5), part(0.75), part(0.9)}), 0.1, warm_up);
  throw NotFound("schedule: there is no '{}' (there are: {})", learning.schedule,
                 fmt::join(schedule_names(), ", "));
}

}  // namespace lockstep::recipes
