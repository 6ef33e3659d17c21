// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::optim {

// A rate that falls when a metric of the evaluations has stopped becoming better.
struct Plateau {
  std::string metric = "loss";
  bool maximize = false;
  double factor = 0.1;
  int patience = 10;       // evaluations without a better one, after which the rate falls
  double min_delta = 0.0;  // less than this is no improvement
  int cooldown = 0;        // evaluations after a fall that do not count
  double min_rate = 0.0;
};

// The learning rate of a step (from 0): a pure function, so that a resumed run continues it. With a
// plateau it is one of the step and of the evaluations so far.
struct Schedule {
  std::string description;
  std::function<double(std::int64_t step)> rate;  // none: the optimiser's
  std::optional<Plateau> plateau = {};
};

struct WarmUp {
  std::int64_t steps = 0;
  double from = 0.0;      // rises linearly from here to the base rate
  bool constant = false;  // stays at `from` instead
};

// The same at every step.
Schedule constant(double rate, const WarmUp& warm_up = {});
// rate * factor^(step / every), not below `stop`.
Schedule factor(double rate, std::int64_t every, double factor, double stop = 1e-8,
                const WarmUp& warm_up = {});
// Times `factor` at each of the steps.
Schedule multi_factor(double rate, std::vector<std::int64_t> steps, double factor,
                      const WarmUp& warm_up = {});
// From `rate` to `final_rate` over `steps` by (1 - t)^power.
Schedule polynomial(double rate, std::int64_t steps, double power = 2.0, double final_rate = 0.0,
                    const WarmUp& warm_up = {});
// From `rate` to `final_rate` over `steps` along half a cosine.
Schedule cosine(double rate, std::int64_t steps, double final_rate = 0.0,
                const WarmUp& warm_up = {});

// `base`, times the plateau's factor for each time that the metric got no better. Throws
// InvalidArgument when the factor is not between 0 and 1 or the patience below 1.
Schedule reduce_on_plateau(const Plateau& plateau, const Schedule& base = {});
// How often the rate has fallen after evaluations that gave these values. A NaN is never better.
int count_reductions(const Plateau& plateau, std::span<const double> values);

}  // namespace lockstep::optim
