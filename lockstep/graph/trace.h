// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include "lockstep/graph/graph.h"
#include "lockstep/ops/dispatch.h"

namespace lockstep {

// Records the ops of this thread into a graph. Tensors with contents become constants: what they
// held when they were first used. What autograd would not go back through (detach, PauseScope,
// attach_grad of a result) is a stop_gradient in the graph.
class Tracer final : public OpInterceptor {
 public:
  explicit Tracer(Graph& graph) : graph_(graph) {}

  std::vector<Tensor> intercept(const OpDef& op, std::span<const Tensor> inputs,
                                const Attrs& attrs) override;
  Tensor input(const TensorInfo& info, std::string name, std::int32_t slice = kSameForSlices);
  // The tensor that stands for a value of the graph.
  Tensor tensor(ValueId value);
  // Throws InvalidArgument for a symbolic tensor of another recording.
  ValueId value(const Tensor& tensor);

 private:
  ValueId without_history(ValueId value);
  Graph& graph_;
  std::shared_ptr<const void> recording_ = std::make_shared<char>();
  std::unordered_map<const void*, ValueId> constants_;
  std::map<std::pair<std::int32_t, std::int32_t>, ValueId> cuts_;
  std::vector<Tensor> kept_;  // keeps constants' addresses unique
};

using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// Runs `function` on symbolic tensors and returns what it did. A random key is a constant like any
// other tensor: for draws that change from run to run, make the key an input and open a RandomScope
// on it inside the function. Names may be shorter than infos.
Graph trace(const TensorFunction& function, const Infos& inputs,
            const std::vector<std::string>& names = {});

// Runs a graph's ops on tensors, in order: eagerly, or recorded by whoever intercepts.
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs);

}  // namespace lockstep
