// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "lockstep/base/recent_list.h"
#include "lockstep/graph/executable.h"
#include "lockstep/graph/trace.h"

namespace lockstep {

// A function of tensors, compiled for inputs like `infos` and the mode (train or predict) of the
// moment. Random draws inside it follow the RandomScope of each call.
class CompiledCall {
 public:
  // Finds another one, or null. It is asked after the function is traced, which may have called
  // whatever keeps compiled calls, and have made that forget some.
  using Find = std::function<const CompiledCall*()>;
  // Shares arena, constants and what is derived of them with the one that is found; one of them
  // runs at a time.
  CompiledCall(const TensorFunction& function, const Infos& infos, const CompileOptions& options,
               const Find& find_like);
  std::vector<Tensor> operator()(std::vector<Tensor> inputs);
  // Of its arena, and what it keeps from call to call.
  std::size_t bytes() const { return executable_.arena_bytes() + executable_.state_bytes(); }

 private:
  static Executable compile(const Graph& graph, const CompileOptions& options,
                            const CompiledCall* like);
  CompiledCall(const Graph& graph, const CompileOptions& options, const Find& find_like);

  bool random_;  // draws numbers
  Executable executable_;
  Tensor no_key_;
};

// A function of tensors that is traced and compiled when it first meets a combination of shapes and
// dtypes, and runs that executable from then on; of CompileOptions::plans combinations at most, of
// which the one that was not used for the longest time is forgotten first. Random draws inside it
// follow the RandomScope of each call. Tensors that the function captures are constants, as they
// were when it was traced; combinations that hold the same contents hold them once. While it is
// recorded or traced, the function itself runs.
class CompiledFunction {
 public:
  explicit CompiledFunction(TensorFunction function, CompileOptions options = {});
  std::vector<Tensor> operator()(TensorList inputs);
  // Combinations that are kept now.
  std::size_t compiled_count() const { return entries_.size(); }
  // Forgets them all, and with them what captured tensors held.
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    Infos infos;
    bool training;  // the mode it was traced in
    CompiledCall call;
  };
  Entry& entry_for(std::span<const Tensor> inputs);

  TensorFunction function_;
  CompileOptions options_;
  RecentList<Entry> entries_;
};

CompiledFunction compile(TensorFunction function, CompileOptions options = {});

}  // namespace lockstep
