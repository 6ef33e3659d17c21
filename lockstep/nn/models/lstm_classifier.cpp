// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/dense.h"
#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/layers/embedding.h"
#include "lockstep/nn/layers/rnn.h"
#include "lockstep/nn/models/models.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn::models {
namespace {

RnnLayerOptions recurrent_options(const LstmClassifierOptions& options) {
  return {.layers = options.layers,
          .dropout = options.dropout,
          .bidirectional = options.bidirectional,
          .inputs = options.width,
          .i2h_bias_init = init::lstm_bias()};
}

// What the last layer remembers at the sequence's end says the class. Tokens are transposed before
// they become vectors, as the recurrent kernels want time first.
class LstmClassifier final : public Block {
 public:
  explicit LstmClassifier(const LstmClassifierOptions& options)
      : options_(options),
        embedding_(add_child("embedding", nn::embedding(options.vocabulary, options.width,
                                                        {.weight_init = init::uniform(0.05)}))),
        lstm_(add_child("lstm", nn::lstm(options.hidden, recurrent_options(options)))),
        fc_(add_child("fc", nn::dense(options.classes))),
        drop_(nn::dropout(options.dropout)) {}

  Tensor forward(const Tensor& tokens) override {
    const Tensor x = (*drop_)((*embedding_)(transpose(tokens)));
    return (*fc_)((*drop_)(last_state((*lstm_)(std::vector<Tensor>{x})[1])));
  }
  std::string description() const override { return "LstmClassifier"; }

 private:
  // hidden [L D, N, H] to [N, D H] of the last layer.
  Tensor last_state(const Tensor& hidden) const {
    const std::int64_t directions = options_.bidirectional ? 2 : 1, rows = hidden.shape(0);
    const Ints shape{hidden.shape(1), directions * options_.hidden};
    if (rows == 1) return reshape(hidden, shape);
    return reshape(transpose(slice_axis(hidden, 0, rows - directions, rows), {1, 0, 2}), shape);
  }

  LstmClassifierOptions options_;
  std::shared_ptr<Embedding> embedding_;
  std::shared_ptr<Recurrent> lstm_;
  std::shared_ptr<Dense> fc_;
  std::shared_ptr<Dropout> drop_;
};

}  // namespace

BlockPtr lstm_classifier(const LstmClassifierOptions& options) {
  return std::make_shared<LstmClassifier>(options);
}

}  // namespace lockstep::nn::models
