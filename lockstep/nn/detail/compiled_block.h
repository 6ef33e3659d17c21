// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/base/recent_list.h"
#include "lockstep/graph/compiled_function.h"
#include "lockstep/nn/call_notes.h"
#include "lockstep/nn/structure.h"

namespace lockstep::nn::detail {

// A block's forward function, compiled for each combination of inputs, parameters, mode and
// arrangement (CallNotes); of `plans` combinations at most. The parameters are inputs, so that a
// changed value is seen; updates of running statistics are further outputs. One call at a time:
// others wait.
class CompiledBlock {
 public:
  using Forward = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  CompiledBlock(Block& block, Forward forward, std::size_t plans);
  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs);

 private:
  struct Entry {
    std::shared_ptr<const Structure> structure;
    Infos infos;         // of inputs and parameters
    std::size_t inputs;  // how many of them
    bool training;
    std::uint64_t arrangement;
    std::shared_ptr<const void> left;  // in the notes of the call that it was traced for
    std::vector<Parameter> updated;    // whose new values the last outputs are
    CompiledCall call;
  };
  void look_at_structure(const std::vector<Tensor>& inputs);
  Entry& entry_for(const std::vector<Tensor>& all, std::size_t inputs, CallNotes* notes);
  Entry make_entry(const std::vector<Tensor>& all, std::size_t inputs, CallNotes* notes) const;

  Block& block_;
  Forward forward_;
  CompileOptions options_;
  std::mutex mutex_;
  RecentList<Entry> entries_;
  Structure seen_;                              // of this call
  std::shared_ptr<const Structure> structure_;  // of the last call
  std::vector<Parameter> parameters_;           // of that structure, each once
};

}  // namespace lockstep::nn::detail
