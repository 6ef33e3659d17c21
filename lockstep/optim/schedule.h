// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::optim {

// The learning rate of a step (from 0): a pure function, so that a resumed run continues it.
struct Schedule {
  std::string description;
  std::function<double(std::int64_t step)> rate;
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

}  // namespace lockstep::optim
