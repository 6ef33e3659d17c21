// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing {

// Something that a long-lived program does: whatever it makes is gone when it returns. `round`
// varies shapes and seeds.
struct Activity {
  std::string name;
  std::function<void(std::int64_t round)> run;
};

// Eager loops over ever new shapes, compiled functions, training on threads, on workers over each
// transport and with compression, checkpoints and resuming, streams and loaders, predictions.
std::vector<Activity> soak_activities(const std::string& folder);

}  // namespace lockstep::testing
