// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct RnnOptions {
  std::string mode = "lstm";  // lstm, gru, rnn_tanh, rnn_relu
  bool bidirectional = false;
};

// Weights of one layer and direction. Gates are stacked along the first axis: lstm i, f, g, o;
// gru r, z, n. w_input [G H, I], w_hidden [G H, H], b_input [G H], b_hidden [G H].
struct RnnWeights {
  Tensor w_input, w_hidden, b_input, b_hidden;
};

struct RnnResult {
  Tensor y;       // [T, N, H D]
  Tensor hidden;  // [L D, N, H]
  Tensor cell;    // lstm only
};

// x [T, N, I]; hidden and cell [L D, N, H], or undefined for zeros. `weights` has one entry for
// each layer and direction: layer 0 forward, layer 0 reverse, layer 1 forward, ... With `lengths`
// [N] (int32 or int64, 0 to T) each sequence ends after as many steps: what x has beyond plays no
// part, y is zero there, the last states are those of the last valid step, and the reverse
// direction begins with it.
RnnResult rnn(const Tensor& x, const std::vector<RnnWeights>& weights, const RnnOptions& options,
              const Tensor& hidden = {}, const Tensor& cell = {}, const Tensor& lengths = {});

}  // namespace lockstep
