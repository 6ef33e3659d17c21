// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/choose_cuts.h"

#include <algorithm>
#include <limits>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/graph/flops.h"

namespace lockstep::train {
namespace {

// Where a segment may begin.
struct Place {
  std::size_t node;
  std::string name;
  int crossing = 0;   // values
  double work = 0.0;  // before it, or memory
};

void collect_names(const nn::Block& block, const std::string& prefix,
                   std::map<const nn::Block*, std::string>& names) {
  for (const nn::Block::Child& child : block.children()) {
    names.try_emplace(child.block.get(), prefix + child.name);
    collect_names(*child.block, prefix + child.name + ".", names);
  }
}

// Values of the forward pass that are made before node `node` and read from there on.
int count_crossing(const Graph& graph, std::size_t node, std::size_t end) {
  std::vector<std::vector<bool>> seen(node);
  int count = 0;
  for (std::size_t id = node; id < end; ++id)
    for (const ValueId input : graph.nodes()[id].inputs) {
      const auto from = static_cast<std::size_t>(input.node);
      if (from >= node || graph.nodes()[from].inputs.empty()) continue;
      seen[from].resize(graph.nodes()[from].outputs.size(), false);
      if (seen[from][static_cast<std::size_t>(input.output)]) continue;
      seen[from][static_cast<std::size_t>(input.output)] = true;
      ++count;
    }
  return count;
}

// Work before each node of the forward pass, and all of it.
std::vector<double> work_before(const StepGraph& step) {
  std::vector<double> work{0.0};
  for (std::size_t id = 0; id < step.forward_nodes; ++id)
    work.push_back(work.back() + count_flops(step.graph, step.graph.nodes()[id]));
  if (work.back() > 0.0) return work;
  for (std::size_t id = 0; id < work.size(); ++id) work[id] = static_cast<double>(id);
  return work;
}

// Weights and what a rule keeps for them are there twice, and the sums of gradients: 5 times with a
// momentum, 7 times with Adam.
constexpr double kCopies = 6.0;

// The same of memory: a parameter is where the first op is that reads it.
std::vector<double> memory_before(const StepGraph& step) {
  const Graph& graph = step.graph;
  std::vector<bool> is_parameter(graph.nodes().size(), false);
  for (std::size_t i = 0; i < step.parameters.size(); ++i)
    is_parameter[static_cast<std::size_t>(graph.inputs()[step.parameter_input(i)].node)] = true;
  std::vector<double> memory{0.0};
  for (std::size_t id = 0; id < step.forward_nodes; ++id) {
    const Node& node = graph.nodes()[id];
    double bytes = 0.0;
    for (const ValueId input : node.inputs) {
      if (!is_parameter[static_cast<std::size_t>(input.node)]) continue;
      is_parameter[static_cast<std::size_t>(input.node)] = false;
      bytes += kCopies * static_cast<double>(graph.info(input).bytes());
    }
    for (const TensorInfo& made : node.outputs)
      if (!node.inputs.empty()) bytes += static_cast<double>(made.bytes());
    memory.push_back(memory.back() + bytes);
  }
  return memory;
}

std::vector<double> weight_before(const StepGraph& step, Balance balance) {
  return balance == Balance::work ? work_before(step) : memory_before(step);
}

std::vector<Place> places_of(const nn::Block& net, const StepGraph& step, Balance balance) {
  const std::map<const nn::Block*, std::string> names = block_names(net);
  std::map<const nn::Block*, int> calls;
  for (const StepGraph::Call& call : step.calls) ++calls[call.block];
  const std::vector<double> work = weight_before(step, balance);
  std::vector<Place> places;
  for (const StepGraph::Call& call : step.calls) {
    const auto name = names.find(call.block);
    if (name == names.end() || calls[call.block] != 1) continue;
    const int crossing = count_crossing(step.graph, call.node, step.forward_nodes);
    if (crossing == 0 || work[call.node] == 0.0) continue;
    Place place{call.node, name->second, crossing, work[call.node]};
    if (places.empty() || places.back().work != place.work)
      places.push_back(std::move(place));
    else if (place.crossing < places.back().crossing)  // no more work, and less to send
      places.back() = std::move(place);
  }
  return places;
}

std::vector<Place> with_fewest_crossing(const std::vector<Place>& places, std::size_t needed) {
  int fewest = std::numeric_limits<int>::max();
  for (const Place& place : places) fewest = std::min(fewest, place.crossing);
  std::vector<Place> best;
  for (const Place& place : places)
    if (place.crossing == fewest) best.push_back(place);
  return best.size() >= needed ? best : places;
}

// best[k][i]: the least work of the largest of k + 1 segments that end at place i.
std::vector<std::size_t> even_places(const std::vector<Place>& places, double all,
                                     std::size_t cuts) {
  const std::size_t count = places.size();
  const auto end_of = [&](std::size_t i) { return i < count ? places[i].work : all; };
  std::vector<std::vector<double>> best(cuts + 1, std::vector<double>(count + 1));
  std::vector<std::vector<std::size_t>> last(cuts + 1, std::vector<std::size_t>(count + 1, 0));
  for (std::size_t i = 0; i <= count; ++i) best[0][i] = end_of(i);
  for (std::size_t k = 1; k <= cuts; ++k)
    for (std::size_t i = 0; i <= count; ++i) {
      best[k][i] = std::numeric_limits<double>::infinity();
      for (std::size_t j = k - 1; j < i; ++j) {
        const double largest = std::max(best[k - 1][j], end_of(i) - places[j].work);
        if (largest < best[k][i]) {
          best[k][i] = largest;
          last[k][i] = j;
        }
      }
    }
  std::vector<std::size_t> chosen(cuts);
  for (std::size_t k = cuts, i = count; k > 0; --k) chosen[k - 1] = i = last[k][i];
  return chosen;
}

}  // namespace

std::map<const nn::Block*, std::string> block_names(const nn::Block& net) {
  std::map<const nn::Block*, std::string> names;
  collect_names(net, "", names);
  return names;
}

ChosenCuts choose_cuts(const nn::Block& net, const StepGraph& step, std::int64_t segments,
                       Balance balance) {
  const auto cuts = static_cast<std::size_t>(segments - 1);
  const std::vector<Place> all_places = places_of(net, step, balance);
  if (all_places.size() < cuts)
    throw InvalidArgument("train: {} segments are too many: the net can be cut into {}", segments,
                          all_places.size() + 1);
  const std::vector<Place> places = with_fewest_crossing(all_places, cuts);
  const double all = weight_before(step, balance).back();
  ChosenCuts chosen;
  double before = 0.0;
  for (const std::size_t place : even_places(places, all, cuts)) {
    chosen.cuts.push_back(places[place].name);
    chosen.shares.push_back((places[place].work - before) / all);
    before = places[place].work;
  }
  chosen.shares.push_back((all - before) / all);
  return chosen;
}

std::vector<std::string> choose_cuts(nn::Block& net, const LossFunction& loss,
                                     const std::vector<TensorInfo>& fields, const FieldRoles& roles,
                                     std::int64_t segments, Balance balance) {
  if (segments < 2) return {};
  return choose_cuts(net, trace_step(net, loss, fields, roles), segments, balance).cuts;
}

}  // namespace lockstep::train
