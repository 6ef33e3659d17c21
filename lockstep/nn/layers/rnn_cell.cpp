// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/rnn_cell.h"

#include "lockstep/base/error.h"
#include "lockstep/nn/detail/layer_checks.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/rnn.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn {
namespace {

std::string name_of(const std::string& mode) { return mode.substr(0, mode.find('_')) + "_cell"; }

}  // namespace

RecurrentCell::RecurrentCell(std::string mode, std::int64_t hidden, RnnCellOptions options)
    : mode_(std::move(mode)), hidden_(hidden), options_(std::move(options)) {
  detail::positive(name_of(mode_).c_str(), "hidden", hidden);
  if (mode_ != "lstm" && mode_ != "gru" && mode_ != "rnn_tanh" && mode_ != "rnn_relu")
    throw InvalidArgument("rnn_cell: mode is '{}', expected lstm, gru, rnn_tanh or rnn_relu",
                          mode_);
  const std::int64_t rows = detail::gates_of(mode_) * hidden_;
  i2h_weight_ =
      add_parameter("i2h_weight", {rows, options_.inputs}, {.init = options_.i2h_weight_init});
  h2h_weight_ = add_parameter("h2h_weight", {rows, hidden_}, {.init = options_.h2h_weight_init});
  i2h_bias_ = add_parameter("i2h_bias", {rows}, {.init = options_.i2h_bias_init});
  h2h_bias_ = add_parameter("h2h_bias", {rows}, {.init = options_.h2h_bias_init});
}

// The layer's own op on one step, so that a loop computes what the layer does.
std::vector<Tensor> RecurrentCell::forward_all(const std::vector<Tensor>& inputs) {
  const std::size_t whole = has_cell() ? 3 : 2;
  if (inputs.size() != 1 && inputs.size() != whole)
    throw InvalidArgument("{}: takes 1 or {} inputs, got {}", name_of(mode_), whole, inputs.size());
  const Tensor& x = inputs[0];
  if (x.rank() != 2)
    throw InvalidArgument("{}: x has shape {}, expected [N, I]", name_of(mode_), x.shape().str());
  const Shape state{x.shape(0), hidden_};
  for (std::size_t i = 1; i < inputs.size(); ++i)
    if (!(inputs[i].shape() == state))
      throw InvalidArgument("{}: state {} has shape {}, expected {}", name_of(mode_), i,
                            inputs[i].shape().str(), state.str());
  i2h_weight_.complete({i2h_weight_.shape()[0], x.shape(1)});
  const bool given = inputs.size() > 1;
  const RnnResult result =
      lockstep::rnn(expand_dims(x, 0),
                    {{i2h_weight_.data(), h2h_weight_.data(), i2h_bias_.data(), h2h_bias_.data()}},
                    {.mode = mode_}, given ? expand_dims(inputs[1], 0) : Tensor(),
                    given && has_cell() ? expand_dims(inputs[2], 0) : Tensor());
  const Tensor hidden = squeeze(result.hidden, {0});
  if (!has_cell()) return {hidden, hidden};
  return {hidden, hidden, squeeze(result.cell, {0})};
}

Tensor RecurrentCell::forward(const Tensor& x) { return forward_all({x}).front(); }

std::vector<Tensor> RecurrentCell::begin_state(std::int64_t batch, DType dtype,
                                               Device device) const {
  return std::vector<Tensor>(has_cell() ? 2 : 1, zeros({batch, hidden_}, dtype, device));
}

std::vector<Tensor> RecurrentCell::unroll(const Tensor& x, const std::vector<Tensor>& states,
                                          const std::string& layout) {
  if (layout != "TNC" && layout != "NTC")
    throw InvalidArgument("{}: layout is '{}', expected TNC or NTC", name_of(mode_), layout);
  if (x.rank() != 3)
    throw InvalidArgument("{}: x has shape {}, expected 3 axes ({})", name_of(mode_),
                          x.shape().str(), layout);
  const int time = layout == "TNC" ? 0 : 1;
  if (x.shape(time) == 0)
    throw InvalidArgument("{}: x has shape {}, expected a step or more", name_of(mode_),
                          x.shape().str());
  std::vector<Tensor> outputs, now = states;
  for (std::int64_t t = 0; t < x.shape(time); ++t) {
    now.insert(now.begin(), squeeze(slice_axis(x, time, t, t + 1), {time}));
    now = (*this)(now);
    outputs.push_back(now.front());
    now.erase(now.begin());
  }
  now.insert(now.begin(), stack(outputs, time));
  return now;
}

std::string RecurrentCell::description() const {
  const char* title = mode_ == "lstm" ? "LSTMCell" : mode_ == "gru" ? "GRUCell" : "RNNCell";
  return fmt::format("{}({})", title, hidden_);
}

std::shared_ptr<RecurrentCell> rnn_cell(std::int64_t hidden, RnnCellOptions options) {
  if (options.activation != "tanh" && options.activation != "relu")
    throw InvalidArgument("rnn_cell: activation is '{}', expected tanh or relu",
                          options.activation);
  const std::string mode = "rnn_" + options.activation;
  return std::make_shared<RecurrentCell>(mode, hidden, std::move(options));
}
std::shared_ptr<RecurrentCell> lstm_cell(std::int64_t hidden, RnnCellOptions options) {
  return std::make_shared<RecurrentCell>("lstm", hidden, std::move(options));
}
std::shared_ptr<RecurrentCell> gru_cell(std::int64_t hidden, RnnCellOptions options) {
  return std::make_shared<RecurrentCell>("gru", hidden, std::move(options));
}

}  // namespace lockstep::nn
