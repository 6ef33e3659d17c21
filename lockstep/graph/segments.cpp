// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/segments.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/graph/slice_types.h"

namespace lockstep {
namespace {

using Place = std::pair<std::int32_t, std::int32_t>;
Place place(ValueId value) { return {value.node, value.output}; }

// What reads a value, in which segments.
struct Reads {
  std::int32_t lowest, highest;
  std::vector<std::int32_t> segments;
};

class Cutter {
 public:
  Cutter(const Graph& graph, const SegmentOptions& options)
      : graph_(graph), options_(options), cells_(options.cells) {
    check(cells_.size() == graph.nodes().size(), "cells of another graph");
    slices_ = infer_slices(graph);
    check(options.homes.empty() || options.homes.size() == options.states.size(),
          "homes of other states");
    for (std::size_t i = 0; i < options.homes.size(); ++i)
      given_home_[graph.inputs()[options.states[i]].node] = {options.homes[i], false};
    find_needed();
    settle_cells();
    find_states();
    for (std::size_t id = 0; id < graph.nodes().size(); ++id)
      if (is_computed(id))
        for (const ValueId input : graph.nodes()[id].inputs) read(input, cell(id).segment);
    place_outputs();
    number_values();
  }

  Segments parts() {
    Segments made;
    made.values = values_;
    made.shared_inputs = graph_.inputs().size() - options_.states.size();
    for (std::int32_t s = 0; s < options_.segments; ++s)
      made.segments.push_back(write_segment(s, made.shared_inputs));
    return made;
  }

 private:
  const Cell& cell(std::size_t id) const { return cells_[id]; }
  std::int32_t slice(ValueId value) const {
    return slices_[static_cast<std::size_t>(value.node)][static_cast<std::size_t>(value.output)];
  }
  const Cell& cell(ValueId value) const { return cells_[static_cast<std::size_t>(value.node)]; }
  // What depends on nothing is made wherever it is read.
  bool is_computed(std::size_t id) const {
    return needed_[id] && graph_.nodes()[id].op != nullptr && !graph_.nodes()[id].inputs.empty();
  }

  void find_needed() {
    needed_.assign(graph_.nodes().size(), false);
    for (const ValueId output : graph_.outputs())
      needed_[static_cast<std::size_t>(output.node)] = true;
    for (std::size_t id = graph_.nodes().size(); id-- > 0;)
      if (needed_[id])
        for (const ValueId input : graph_.nodes()[id].inputs)
          needed_[static_cast<std::size_t>(input.node)] = true;
  }

  // Number of the pass in the order in which they run.
  std::int32_t order(const Cell& cell) const {
    return cell.backward ? 2 * options_.segments - 1 - cell.segment : cell.segment;
  }

  // A gradient may be wanted before all of it is there: it waits. So does what reads a state that
  // a later segment has.
  void settle_cells() {
    for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
      if (!is_computed(id)) continue;
      for (const ValueId input : graph_.nodes()[id].inputs) {
        const auto home = given_home_.find(input.node);
        if (home == given_home_.end() && !is_computed(static_cast<std::size_t>(input.node)))
          continue;
        const Cell& made = home == given_home_.end() ? cell(input) : home->second;
        if (order(made) > order(cells_[id])) cells_[id] = made;
      }
    }
  }

  // A state lives with the lowest forward pass that reads it.
  void find_states() {
    std::map<std::int32_t, std::size_t> input_of;  // by node
    for (const std::size_t state : options_.states) {
      input_of[graph_.inputs()[state].node] = state;
      home_[state] = -1;
    }
    for (const bool backward : {false, true})
      for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
        if (!is_computed(id) || cell(id).backward != backward) continue;
        for (const ValueId input : graph_.nodes()[id].inputs) {
          const auto found = input_of.find(input.node);
          if (found == input_of.end() || (backward && settled_.contains(found->second))) continue;
          std::int32_t& home = home_[found->second];
          home = home < 0 ? cell(id).segment : std::min(home, cell(id).segment);
          if (!backward) settled_.insert({found->second, true});
        }
      }
    for (std::size_t i = 0; i < options_.homes.size(); ++i)
      home_[options_.states[i]] = options_.homes[i];
    for (auto& [state, home] : home_) {
      home = std::max(home, 0);
      cells_[static_cast<std::size_t>(graph_.inputs()[state].node)] = {home, false};
      state_of_[graph_.inputs()[state].node] = state;
    }
  }

  bool is_everywhere(ValueId value) const {
    const Node& node = graph_.node(value);
    return node.inputs.empty() && !state_of_.contains(value.node);
  }

  void read(ValueId value, std::int32_t segment) {
    if (is_everywhere(value) || cell(value).segment == segment) return;
    const std::int32_t from = cell(value).segment;
    Reads& reads = reads_.try_emplace(place(value), Reads{from, from, {}}).first->second;
    reads.lowest = std::min(reads.lowest, segment);
    reads.highest = std::max(reads.highest, segment);
    if (std::find(reads.segments.begin(), reads.segments.end(), segment) == reads.segments.end())
      reads.segments.push_back(segment);
  }

  void place_outputs() {
    for (const ValueId output : graph_.outputs())
      output_segments_.push_back(is_everywhere(output) ? 0 : cell(output).segment);
    for (const auto& [output, state] : options_.outputs_with_states) {
      const std::int32_t home = home_.at(state), made = output_segments_[output];
      const ValueId value = graph_.outputs()[output];
      if (!is_everywhere(value) && made < home)
        throw Unsupported(
            "segments: output {} is made in segment {}, below segment {} where its state is",
            graph_.output_names()[output], made, home);
      output_segments_[output] = home;
      read(value, home);
    }
  }

  void number_values() {
    for (const auto& [where, reads] : reads_) {
      const ValueId value{where.first, where.second};
      numbers_[where] = values_.size();
      CrossingValue crossing{graph_.info(value), cell(value).segment, reads.highest, reads.lowest,
                             !cell(value).backward};
      crossing.slice = slice(value);
      if (const auto state = state_of_.find(value.node); state != state_of_.end())
        crossing.state = state->second;
      values_.push_back(std::move(crossing));
    }
  }

  // The segment's part of the graph as it is written.
  struct Writer {
    Segment segment;
    std::map<Place, ValueId> copies = {};
  };

  ValueId copy_of(Writer& writer, ValueId value) const {
    const auto found = writer.copies.find(place(value));
    if (found != writer.copies.end()) return found->second;
    const Node& node = graph_.node(value);
    check(is_everywhere(value) && !node.is_input(), "a segment reads what it does not have");
    Graph& graph = writer.segment.graph;
    const ValueId copy = node.is_constant() ? graph.add_constant(node.constant, node.name)
                                            : graph.add_node(*node.op, {}, node.attrs, node.name);
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      writer.copies[{value.node, k}] = {copy.node, k};
    return writer.copies.at(place(value));
  }

  void add_input(Writer& writer, ValueId value) const {
    writer.copies[place(value)] =
        writer.segment.graph.add_input(graph_.info(value), graph_.node(value).name, slice(value));
  }

  void add_inputs(Writer& writer, std::int32_t s) const {
    for (const ValueId input : graph_.inputs())
      if (!state_of_.contains(input.node)) add_input(writer, input);
    for (const bool below : {true, false}) {
      for (const auto& [where, reads] : reads_) {
        const bool here =
            std::find(reads.segments.begin(), reads.segments.end(), s) != reads.segments.end();
        const ValueId value{where.first, where.second};
        if (!here || (cell(value).segment < s) != below) continue;
        add_input(writer, value);
        writer.segment.read.push_back(numbers_.at(where));
      }
      if (below) writer.segment.from_below = writer.segment.read.size();
    }
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      const auto home = home_.find(i);
      if (home == home_.end() || home->second != s) continue;
      add_input(writer, graph_.inputs()[i]);
      writer.segment.states.push_back(i);
    }
  }

  void add_nodes(Writer& writer, std::int32_t s) const {
    for (const bool backward : {false, true})
      for (std::size_t id = 0; id < graph_.nodes().size(); ++id) {
        if (!is_computed(id) || !(cell(id) == Cell{s, backward})) continue;
        const Node& node = graph_.nodes()[id];
        std::vector<ValueId> inputs;
        for (const ValueId input : node.inputs) inputs.push_back(copy_of(writer, input));
        const ValueId first =
            writer.segment.graph.add_node(*node.op, std::move(inputs), node.attrs, node.name);
        for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
          writer.copies[{static_cast<std::int32_t>(id), k}] = {first.node, k};
      }
  }

  void add_outputs(Writer& writer, std::int32_t s) const {
    for (const auto& [where, number] : numbers_) {
      const CrossingValue& value = values_[number];
      if (value.from != s || value.state) continue;
      writer.segment.made.push_back(number);
      writer.segment.is_early.push_back(value.is_made_forward);
      const ValueId made{where.first, where.second};
      writer.segment.graph.add_output(writer.copies.at(where), {}, slice(made));
    }
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (output_segments_[i] != s) continue;
      const ValueId value = graph_.outputs()[i];
      writer.segment.outputs.push_back(i);
      writer.segment.is_early.push_back(is_everywhere(value) || cell(value) == Cell{s, false});
      writer.segment.graph.add_output(copy_of(writer, value), graph_.output_names()[i],
                                      graph_.output_slices()[i]);
    }
  }

  Segment write_segment(std::int32_t s, std::size_t shared) const {
    Writer writer;
    add_inputs(writer, s);
    check(writer.segment.graph.inputs().size() ==
              shared + writer.segment.read.size() + writer.segment.states.size(),
          "inputs of a segment");
    add_nodes(writer, s);
    add_outputs(writer, s);
    return std::move(writer.segment);
  }

  const Graph& graph_;
  const SegmentOptions& options_;
  std::vector<Cell> cells_;
  SliceTypes slices_;
  std::vector<bool> needed_;
  std::map<std::int32_t, Cell> given_home_;   // of states, by node
  std::map<std::size_t, std::int32_t> home_;  // of states, by input
  std::map<std::size_t, bool> settled_;
  std::map<std::int32_t, std::size_t> state_of_;  // by node
  std::map<Place, Reads> reads_;                  // of values that cross
  std::vector<std::int32_t> output_segments_;
  std::map<Place, std::size_t> numbers_;
  std::vector<CrossingValue> values_;
};

}  // namespace

std::vector<std::size_t> Segments::going_up(std::int32_t b) const {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].from <= b && values[i].highest > b) numbers.push_back(i);
  return numbers;
}

std::vector<std::size_t> Segments::going_down(std::int32_t b) const {
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].from > b && values[i].lowest <= b) numbers.push_back(i);
  return numbers;
}

Segments cut_into_segments(const Graph& graph, const SegmentOptions& options) {
  return Cutter(graph, options).parts();
}

}  // namespace lockstep
