// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/rnn.h"

#include "lockstep/base/error.h"
#include "lockstep/nn/detail/layer_checks.h"
#include "lockstep/nn/functional.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep::nn {
namespace {

std::string title_of(const std::string& mode) {
  if (mode == "lstm") return "LSTM";
  return mode == "gru" ? "GRU" : "RNN";
}

Tensor part(const Tensor& states, int begin, int end) {
  return states.defined() ? slice_axis(states, 0, begin, end) : Tensor();
}

}  // namespace

Recurrent::Recurrent(std::string mode, std::int64_t hidden, RnnLayerOptions options)
    : mode_(std::move(mode)), hidden_(hidden), options_(std::move(options)) {
  const std::string title = mode_.substr(0, mode_.find('_'));
  const char* layer = title.c_str();
  detail::positive(layer, "hidden", hidden);
  detail::positive(layer, "layers", options_.layers);
  detail::probability(layer, "dropout", options_.dropout);
  if (mode_ != "lstm" && mode_ != "gru" && mode_ != "rnn_tanh" && mode_ != "rnn_relu")
    throw InvalidArgument("rnn: mode is '{}', expected lstm, gru, rnn_tanh or rnn_relu", mode_);
  if (options_.layout != "TNC" && options_.layout != "NTC")
    throw InvalidArgument("{}: layout is '{}', expected TNC or NTC", layer, options_.layout);
  for (int i = 0; i < options_.layers; ++i) {
    add_weights(i, "l");
    if (options_.bidirectional) add_weights(i, "r");
  }
}

void Recurrent::add_weights(int layer, const char* direction) {
  const std::string prefix = fmt::format("{}{}_", direction, layer);
  const std::int64_t rows = detail::gates_of(mode_) * hidden_;
  const std::int64_t inputs = layer == 0 ? options_.inputs : hidden_ * directions();
  weights_.push_back(
      {add_parameter(prefix + "i2h_weight", {rows, inputs}, {.init = options_.i2h_weight_init}),
       add_parameter(prefix + "h2h_weight", {rows, hidden_}, {.init = options_.h2h_weight_init}),
       add_parameter(prefix + "i2h_bias", {rows}, {.init = options_.i2h_bias_init}),
       add_parameter(prefix + "h2h_bias", {rows}, {.init = options_.h2h_bias_init})});
}

RnnResult Recurrent::run_layer(const Tensor& x, int layer, const Tensor& hidden, const Tensor& cell,
                               const Tensor& lengths) const {
  std::vector<RnnWeights> weights;
  const int first = layer * directions(), last = first + directions();
  for (int i = first; i < last; ++i) {
    const Weights& w = weights_[static_cast<std::size_t>(i)];
    w.i2h_weight.complete({w.i2h_weight.shape()[0], x.shape(2)});
    weights.push_back(
        {w.i2h_weight.data(), w.h2h_weight.data(), w.i2h_bias.data(), w.h2h_bias.data()});
  }
  return lockstep::rnn(x, weights, {.mode = mode_, .bidirectional = options_.bidirectional},
                       part(hidden, first, last), part(cell, first, last), lengths);
}

RnnResult Recurrent::run(const Tensor& x, const Tensor& hidden, const Tensor& cell,
                         const Tensor& lengths) const {
  if (x.rank() != 3)
    throw InvalidArgument("{}: x has shape {}, expected 3 axes ({})", mode_, x.shape().str(),
                          options_.layout);
  const bool batch_first = options_.layout == "NTC";
  RnnResult result{batch_first ? swap_axes(x, 0, 1) : x, {}, {}};
  std::vector<Tensor> hiddens, cells;
  for (int layer = 0; layer < options_.layers; ++layer) {
    if (layer > 0 && options_.dropout > 0.0) result.y = nn::dropout(result.y, options_.dropout);
    result = run_layer(result.y, layer, hidden, cell, lengths);
    hiddens.push_back(result.hidden);
    cells.push_back(result.cell);
  }
  const bool several = options_.layers > 1;
  return {batch_first ? swap_axes(result.y, 0, 1) : result.y,
          several ? concat(hiddens, 0) : hiddens[0],
          several && has_cell() ? concat(cells, 0) : cells[0]};
}

Tensor Recurrent::forward(const Tensor& x) {
  if (options_.use_sequence_length)
    throw InvalidArgument("{}: use_sequence_length takes a list, {{x, lengths}}, got one tensor",
                          mode_);
  return run(x, {}, {}, {}).y;
}

std::vector<Tensor> Recurrent::forward_all(const std::vector<Tensor>& inputs) {
  const std::size_t more = options_.use_sequence_length ? 1 : 0;
  const std::size_t whole = (has_cell() ? 3 : 2) + more;
  if (inputs.size() != 1 + more && inputs.size() != whole)
    throw InvalidArgument("{}: takes {} or {} inputs, got {}", mode_, 1 + more, whole,
                          inputs.size());
  const bool given = inputs.size() == whole;
  const RnnResult result =
      run(inputs[0], given ? inputs[1] : Tensor(), given && has_cell() ? inputs[2] : Tensor(),
          more == 1 ? inputs.back() : Tensor());
  if (has_cell()) return {result.y, result.hidden, result.cell};
  return {result.y, result.hidden};
}

std::string Recurrent::description() const {
  std::string text = fmt::format("{}({}", title_of(mode_), hidden_);
  if (options_.layers > 1) text += fmt::format(", {} layers", options_.layers);
  if (options_.bidirectional) text += ", bidirectional";
  return text + ")";
}

std::shared_ptr<Recurrent> rnn(std::int64_t hidden, RnnLayerOptions options) {
  if (options.activation != "tanh" && options.activation != "relu")
    throw InvalidArgument("rnn: activation is '{}', expected tanh or relu", options.activation);
  const std::string mode = "rnn_" + options.activation;
  return std::make_shared<Recurrent>(mode, hidden, std::move(options));
}
std::shared_ptr<Recurrent> lstm(std::int64_t hidden, RnnLayerOptions options) {
  return std::make_shared<Recurrent>("lstm", hidden, std::move(options));
}
std::shared_ptr<Recurrent> gru(std::int64_t hidden, RnnLayerOptions options) {
  return std::make_shared<Recurrent>("gru", hidden, std::move(options));
}

}  // namespace lockstep::nn
