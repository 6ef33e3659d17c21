// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/autograd/backward_observer.h"
#include "lockstep/nn/call_watch.h"
#include "lockstep/train/step_graph.h"

namespace lockstep::train::detail {

// While a step is traced: which of its nodes belong to which segment of a net that is cut. The
// forward pass enters the next segment where it calls a block that a cut names; the gradients of an
// op belong to the op's segment.
class CellMarks {
 public:
  // Segments are numbered by the calls of their blocks, or, in a pass that need not call all of
  // them in turn, as the cuts are listed: none is entered that a later one came before.
  enum class Numbers { by_calls, as_listed };
  // Throws InvalidArgument for a cut that names no block, or one twice.
  CellMarks(nn::Block& net, const std::vector<std::string>& cuts, const Graph& graph,
            Numbers numbers = Numbers::by_calls);
  ~CellMarks();

  // Throws InvalidArgument unless every cut was met once, and every segment has ops.
  void check_forward() const;
  // The forward pass is over.
  void go_back();

  // Names in the order of their calls.
  std::vector<std::string> cuts() const;
  const std::vector<StepGraph::Call>& calls() const { return calls_; }
  // By node, up to now; empty where nothing is cut.
  std::vector<Cell> cells() const;

 private:
  struct Cut {
    std::string name;
    const nn::Block* block;
    int calls = 0;
  };
  struct Mark {
    std::size_t node;  // the first that it is of
    Cell cell;
  };
  class Back;
  void enter(const nn::Block& block);
  void mark(Cell cell);
  std::size_t ops_from(std::size_t begin, std::size_t end) const;

  const Graph& graph_;
  Numbers numbers_;
  std::vector<Cut> cuts_;
  std::vector<std::size_t> order_;  // of cuts, as they were met
  std::vector<Mark> marks_;
  std::vector<StepGraph::Call> calls_;
  bool is_forward_ = true;
  std::vector<Cell> forward_;  // by node, when the forward pass was over
  std::optional<nn::CallWatch> watch_;
  std::unique_ptr<Back> back_;
};

}  // namespace lockstep::train::detail
