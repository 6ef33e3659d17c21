// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/graph/executable.h"
#include "lockstep/graph/trace.h"

namespace lockstep {
namespace autograd {
class Function;
}

// A function of tensors like `infos` whose calls are recorded as one function each: compiled
// forward, which keeps what the gradient reads, and a compiled gradient. It is traced in the mode
// (train or predict) of the moment. Random draws inside it follow the RandomScope of each call.
class RecordedFunction {
 public:
  // Extras are results without gradients, such as new running statistics.
  struct Results {
    std::vector<Tensor> outputs, extras;
  };
  using Function = std::function<Results(const std::vector<Tensor>&)>;
  // `wrt` are the inputs that get gradients.
  RecordedFunction(const Function& function, const Infos& infos, std::vector<std::size_t> wrt,
                   const CompileOptions& options = {});
  // The extras are not recorded.
  Results operator()(const std::vector<Tensor>& inputs);

 private:
  class Call;
  struct Compiled;
  friend const Graph* graph_of_call(const autograd::Function& function);
  std::shared_ptr<Compiled> compiled_;
};

// What a recorded call of a RecordedFunction computes, or null of another function. The graph's
// inputs are those of the call and a key, the call's outputs are the first of its own.
const Graph* graph_of_call(const autograd::Function& function);

}  // namespace lockstep
