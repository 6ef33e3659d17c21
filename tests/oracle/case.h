// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/ops/op.h"

namespace lockstep::testing {

using Tensors = std::vector<Tensor>;

// A small program as a test in another language describes it: {"inputs": [{"dtype", "shape"}, ...],
// "nodes": [{"op", "attrs", "in": [value, ...]}, ...], "outputs": [value, ...], "wrt": [input,
// ...], "head": value}. Values count the inputs, then every node's outputs in order. Functions that
// are composed of ops can be asked for by name, too; "rnn" takes x, hidden, cell for an lstm, then
// four weights for each layer and direction, then lengths where its attributes say so.
class Case {
 public:
  struct Node {
    std::string op;
    nlohmann::json attrs;
    std::vector<std::size_t> in;
  };

  explicit Case(const nlohmann::json& text);

  // The outputs, then the head where there is one.
  Tensors operator()(const Tensors& inputs) const;
  // Every node's outputs.
  std::vector<Tensors> results(const Tensors& inputs) const;

  Infos infos;
  std::vector<Node> nodes;
  std::vector<std::size_t> outputs;
  std::vector<std::size_t> wrt;  // inputs whose gradients are asked for
  std::ptrdiff_t head = -1;      // the value that is differentiated: a scalar
};

}  // namespace lockstep::testing
