// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/nn/block.h"

namespace lockstep::nn {

struct RnnCellOptions {
  std::int64_t inputs = -1;         // features of x; -1: told by the first input
  std::string activation = "tanh";  // or relu; of rnn_cell alone
  Initializer i2h_weight_init = {};
  Initializer h2h_weight_init = {};
  Initializer i2h_bias_init = init::zero();
  Initializer h2h_bias_init = init::zero();
};

// One step of a recurrent layer, for loops by hand. Called on a list, {x} or {x, hidden[, cell]}
// with x [N, I] and states [N, H], it gives {output, hidden[, cell]}, where the output is the new
// hidden state; called on one tensor, that alone. States that are not given are zeros. Parameters
// are laid out as those of one layer of nn::lstm and its kin: i2h_weight [G H, I], h2h_weight
// [G H, H], i2h_bias, h2h_bias.
class RecurrentCell : public Block {
 public:
  // mode: lstm, gru, rnn_tanh or rnn_relu.
  RecurrentCell(std::string mode, std::int64_t hidden, RnnCellOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override;
  std::string description() const override;
  // Zeros [N, H] for each state, to begin a loop with.
  std::vector<Tensor> begin_state(std::int64_t batch, DType dtype = DType::float32,
                                  Device device = {}) const;
  // Runs over all steps of x [T, N, I] (or [N, T, I] where `layout` is NTC): {outputs, states...}.
  std::vector<Tensor> unroll(const Tensor& x, const std::vector<Tensor>& states = {},
                             const std::string& layout = "TNC");

 private:
  bool has_cell() const { return mode_ == "lstm"; }
  std::string mode_;
  std::int64_t hidden_;
  RnnCellOptions options_;
  Parameter i2h_weight_, h2h_weight_, i2h_bias_, h2h_bias_;
};

std::shared_ptr<RecurrentCell> rnn_cell(std::int64_t hidden, RnnCellOptions options = {});
std::shared_ptr<RecurrentCell> lstm_cell(std::int64_t hidden, RnnCellOptions options = {});
std::shared_ptr<RecurrentCell> gru_cell(std::int64_t hidden, RnnCellOptions options = {});

}  // namespace lockstep::nn
