// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/nn/block.h"
#include "lockstep/ops/rnn.h"

namespace lockstep::nn {

struct RnnLayerOptions {
  int layers = 1;
  std::string layout = "TNC";  // or NTC: of the input and the output; states are always [L D, N, H]
  double dropout = 0.0;        // on the output of every layer but the last, in train mode
  bool bidirectional = false;
  std::int64_t inputs = -1;         // features of x; -1: told by the first input
  std::string activation = "tanh";  // or relu; of rnn alone
  Initializer i2h_weight_init = {};
  Initializer h2h_weight_init = {};
  Initializer i2h_bias_init = init::zero();
  Initializer h2h_bias_init = init::zero();
  bool use_sequence_length = false;  // the last input is the lengths [N] of the sequences
};

// Recurrent layers. Called on one tensor it gives the outputs [T, N, H D]; called on a list, {x} or
// {x, hidden[, cell]}, it gives {outputs, hidden[, cell]}. With use_sequence_length lengths follow
// as one input more: {x, lengths} or {x, hidden[, cell], lengths}; see lockstep::rnn.
class Recurrent : public Block {
 public:
  // mode: lstm, gru, rnn_tanh or rnn_relu.
  Recurrent(std::string mode, std::int64_t hidden, RnnLayerOptions options = {});
  Tensor forward(const Tensor& x) override;
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override;
  std::string description() const override;

 private:
  struct Weights {
    Parameter i2h_weight, h2h_weight, i2h_bias, h2h_bias;
  };
  void add_weights(int layer, const char* direction);
  RnnResult run_layer(const Tensor& x, int layer, const Tensor& hidden, const Tensor& cell,
                      const Tensor& lengths) const;
  RnnResult run(const Tensor& x, const Tensor& hidden, const Tensor& cell,
                const Tensor& lengths) const;
  bool has_cell() const { return mode_ == "lstm"; }
  int directions() const { return options_.bidirectional ? 2 : 1; }

  std::string mode_;
  std::int64_t hidden_;
  RnnLayerOptions options_;
  std::vector<Weights> weights_;  // layer 0 forward, layer 0 reverse, layer 1 forward, ...
};

std::shared_ptr<Recurrent> rnn(std::int64_t hidden, RnnLayerOptions options = {});
std::shared_ptr<Recurrent> lstm(std::int64_t hidden, RnnLayerOptions options = {});
std::shared_ptr<Recurrent> gru(std::int64_t hidden, RnnLayerOptions options = {});

}  // namespace lockstep::nn
