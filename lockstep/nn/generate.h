// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/nn/block.h"

namespace lockstep::nn {

struct GenerateOptions {
  std::int64_t context = 128;  // what the net reads at once
  std::int64_t length = 200;   // numbers to add
  double temperature = 0.8;    // 0: always the likeliest
  std::uint64_t seed = 0;      // the draw of place i is a function of (seed, i)
  std::function<void(std::int64_t)> on_number = {};
};

// Continues `prompt` with a causal net, [N, T] numbers to [N, T, C] logits. Throws InvalidArgument
// for an empty prompt or a negative temperature.
std::vector<std::int64_t> generate(Block& net, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options = {});

}  // namespace lockstep::nn
