// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/cell_marks.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/tensor/trace_value.h"

namespace lockstep::train::detail {

class CellMarks::Back final : public autograd::BackwardObserver {
 public:
  explicit Back(CellMarks& marks) : marks_(marks) {}
  void go_back_through(std::span<const Tensor> outputs) override {
    for (const Tensor& output : outputs) {
      if (!output.defined() || !output.is_symbolic()) continue;
      const auto node = static_cast<std::size_t>(output.trace_value()->node);
      if (node >= marks_.forward_.size()) return;  // of a part of an op, which has its segment
      return marks_.mark({marks_.forward_[node].segment, true});
    }
  }

 private:
  CellMarks& marks_;
};

CellMarks::CellMarks(nn::Block& net, const std::vector<std::string>& cuts, const Graph& graph,
                     Numbers numbers)
    : graph_(graph), numbers_(numbers) {
  for (const std::string& name : cuts) {
    nn::BlockPtr block;
    try {
      block = net.child(name);
    } catch (const NotFound& error) {
      throw InvalidArgument("cut '{}' names no block of the net: {}", name, error.what());
    }
    for (const Cut& other : cuts_)
      if (other.block == block.get())
        throw InvalidArgument("cut '{}' and cut '{}' are the same block", other.name, name);
    cuts_.push_back({name, block.get()});
  }
  if (!cuts_.empty()) mark({0, false});
  watch_.emplace([this](const nn::Block& block) { enter(block); });
}

CellMarks::~CellMarks() = default;

void CellMarks::enter(const nn::Block& block) {
  if (!is_forward_) return;
  calls_.push_back({&block, graph_.nodes().size()});
  const auto found =
      std::find_if(cuts_.begin(), cuts_.end(), [&](const Cut& cut) { return cut.block == &block; });
  if (found == cuts_.end() || found->calls++ > 0) return;
  order_.push_back(static_cast<std::size_t>(found - cuts_.begin()));
  if (numbers_ == Numbers::by_calls) return mark({static_cast<std::int32_t>(order_.size()), false});
  const auto listed = static_cast<std::int32_t>(order_.back()) + 1;
  if (listed > marks_.back().cell.segment) mark({listed, false});
}

void CellMarks::mark(Cell cell) {
  if (marks_.empty() || !(marks_.back().cell == cell))
    marks_.push_back({graph_.nodes().size(), cell});
}

std::size_t CellMarks::ops_from(std::size_t begin, std::size_t end) const {
  const auto& nodes = graph_.nodes();
  return static_cast<std::size_t>(
      std::count_if(nodes.begin() + static_cast<std::ptrdiff_t>(begin),
                    nodes.begin() + static_cast<std::ptrdiff_t>(end),
                    [](const Node& node) { return !node.inputs.empty(); }));
}

void CellMarks::check_forward() const {
  for (const Cut& cut : cuts_)
    if (cut.calls != 1)
      throw InvalidArgument(
          "cut '{}': a step calls the block {} times, expected once: a segment cannot begin in a "
          "block that is shared",
          cut.name, cut.calls);
  for (std::size_t m = 0; m < marks_.size(); ++m) {
    const std::size_t end = m + 1 < marks_.size() ? marks_[m + 1].node : graph_.nodes().size();
    if (ops_from(marks_[m].node, end) > 0) continue;
    throw InvalidArgument("cut '{}': the segment before it has nothing to compute",
                          cuts_[order_[std::min(m, order_.size() - 1)]].name);
  }
}

void CellMarks::go_back() {
  is_forward_ = false;
  if (cuts_.empty()) return;
  forward_ = cells();
  mark({static_cast<std::int32_t>(cuts_.size()), true});
  back_ = std::make_unique<Back>(*this);
}

std::vector<std::string> CellMarks::cuts() const {
  std::vector<std::string> names;
  for (const std::size_t cut : order_) names.push_back(cuts_[cut].name);
  return names;
}

std::vector<Cell> CellMarks::cells() const {
  std::vector<Cell> cells;
  if (cuts_.empty()) return cells;
  cells.resize(graph_.nodes().size());
  for (std::size_t m = 0; m < marks_.size(); ++m) {
    const std::size_t end = m + 1 < marks_.size() ? marks_[m + 1].node : cells.size();
    std::fill(cells.begin() + static_cast<std::ptrdiff_t>(marks_[m].node),
              cells.begin() + static_cast<std::ptrdiff_t>(end), marks_[m].cell);
  }
  return cells;
}

}  // namespace lockstep::train::detail
