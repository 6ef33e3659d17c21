// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/graph/executable.h"
#include "lockstep/nn/block.h"

namespace lockstep::nn::detail {

// A block's forward function, compiled for each combination of inputs, parameters and mode. The
// parameters are inputs, so that a changed value is seen; updates of running statistics are further
// outputs. One call at a time: others wait.
class CompiledBlock {
 public:
  using Forward = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  CompiledBlock(const Block& block, Forward forward);
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);

 private:
  // What the traced function depends on.
  struct Key {
    Infos infos = {};  // of inputs and parameters
    std::size_t inputs = 0;
    bool training = false;
    std::vector<bool> frozen = {};
    std::vector<Mode> modes = {};
    std::vector<std::uint64_t> hooks = {};
    bool operator==(const Key&) const = default;
  };
  struct Entry;
  Entry& entry_for(Key key, std::vector<Parameter> parameters);
  const Block& block_;
  Forward forward_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Entry>> entries_;
};

}  // namespace lockstep::nn::detail
