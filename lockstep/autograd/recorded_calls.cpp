// SPDX-License-Identifier: Apache-2.0
#include "lockstep/autograd/recorded_calls.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lockstep/autograd/detail/tape.h"

namespace lockstep::autograd {
namespace {

// Through what passes its input on unchanged.
Edge behind_aliases(Edge edge) {
  while (edge && edge->node && !edge->node->is_freed() && edge->node->record().op == nullptr &&
         edge->node->record().function == nullptr)
    edge = edge->node->record().edges.front();
  return edge;
}

class Listing {
 public:
  explicit Listing(TensorList heads) {
    std::vector<Edge> edges;
    for (const Tensor& head : heads) edges.push_back(behind_aliases(live_entry(head)));
    find_nodes(edges);
    for (const TapeNode* node : order_) add_call(node->record());
    for (std::size_t i = 0; i < heads.size(); ++i) made_.heads.push_back(value(edges[i], heads[i]));
  }

  RecordedCalls take() { return std::move(made_); }

 private:
  void find_nodes(std::vector<Edge> stack) {
    while (!stack.empty()) {
      const Edge edge = behind_aliases(std::move(stack.back()));
      stack.pop_back();
      if (edge == nullptr || edge->node == nullptr) continue;
      const TapeNode* node = edge->node.get();
      if (node->is_freed())
        throw InvalidArgument(
            "recorded_calls: the record of '{}' was freed by backward; retain it with retain=true",
            node->name());
      if (!numbers_.emplace(node, 0).second) continue;
      order_.push_back(node);
      for (const Edge& e : node->record().edges) stack.push_back(e);
    }
    // Ids grow from input to output.
    std::sort(order_.begin(), order_.end(),
              [](const TapeNode* a, const TapeNode* b) { return a->id() < b->id(); });
    for (std::size_t i = 0; i < order_.size(); ++i)
      numbers_[order_[i]] = static_cast<std::int64_t>(i);
  }

  void add_call(const TapeRecord& record) {
    RecordedCall call{.op = record.op, .function = record.function, .attrs = record.attrs};
    for (std::size_t i = 0; i < record.inputs.size(); ++i)
      call.inputs.push_back(value(behind_aliases(record.edges[i]), record.inputs[i]));
    made_.calls.push_back(std::move(call));
  }

  RecordedValue value(const Edge& edge, const Tensor& tensor) {
    if (edge && edge->node) return {numbers_.at(edge->node.get()), edge->output};
    const void* key = edge ? static_cast<const void*>(edge.get()) : tensor.identity();
    const auto [found, is_new] = variables_.emplace(key, made_.variables.size());
    if (is_new) made_.variables.push_back(tensor);
    return {-1, found->second};
  }

  std::vector<const TapeNode*> order_;
  std::map<const TapeNode*, std::int64_t> numbers_;
  std::map<const void*, std::size_t> variables_;  // leaves by their entry, others by themselves
  RecordedCalls made_;
};

}  // namespace

RecordedCalls recorded_calls(TensorList heads) { return Listing(heads).take(); }

}  // namespace lockstep::autograd
