// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "lockstep/base/shard_tree.h"
#include "lockstep/kvstore/flat_state.h"
#include "lockstep/kvstore/synchronizer.h"

namespace lockstep::testing {

inline kvstore::FlatLayout layout_to_train() {
  kvstore::FlatLayout layout;
  layout.add({.count = 5});
  layout.add({.count = 3 * optim::kPieceElements + 100});
  layout.add({.count = 2 * optim::kPieceElements + 1});
  layout.tables.push_back({.rows = 50, .width = 3});
  layout.tables.push_back({.rows = 7, .width = 1});
  return layout;
}

// The same for every shard: some rows of each table.
inline std::vector<std::vector<kvstore::RowNode>> row_nodes(const kvstore::FlatLayout& layout,
                                                            std::int64_t shards, ShardRange own,
                                                            int step) {
  using namespace kvstore;
  std::vector<std::vector<RowNode>> tables;
  for (const RowTable& table : layout.tables) {
    std::vector<RowNode>& nodes = tables.emplace_back();
    for (const ShardRange& range : subtrees_in(shards, own)) {
      const auto first = static_cast<std::int64_t>(step) % 4;
      RowSums sums{.ids = {first, first + 2}};
      sums.rows.assign(2 * table.width, static_cast<float>(range.hi - range.lo));
      nodes.push_back({range, sums});
    }
  }
  return tables;
}

// Weights after some steps, and the slots; `at_step` is called by the first worker.
inline std::vector<std::vector<float>> train_in_step(
    kvstore::Mode& mode, const optim::OptimizerPtr& rule,
    const std::function<void(int)>& at_step = [](int) {}) {
  using namespace kvstore;
  constexpr std::int64_t kShards = 8;
  FlatState state(layout_to_train(), rule, mode.slot_place());
  const auto synchronizer = mode.synchronize(state, kShards);
  for (std::size_t i = 0; i < state.layout().floats; ++i)
    state.weights()[i] = 0.001F * static_cast<float>(i % 1000);
  synchronizer->weights_changed();
  ThreadTeam caller(1);
  for (int step = 0; step < 8; ++step) {
    if (mode.group().is_first()) at_step(step);
    std::vector<std::vector<float>> sums;
    std::vector<Synchronizer::Node> nodes;
    // Whole numbers: their sums are the same in any order.
    for (const ShardRange& range : subtrees_in(kShards, mode.group().range(kShards))) {
      sums.emplace_back(state.layout().floats,
                        static_cast<float>((range.hi - range.lo) * (step + 1)));
      nodes.push_back({range, {}});
    }
    synchronizer->begin(step, 0.01);
    for (const FlatParameter& parameter : state.layout().parameters) {
      for (std::size_t n = 0; n < nodes.size(); ++n)
        nodes[n].sum = std::span(sums[n]).subspan(parameter.offset, parameter.count);
      synchronizer->give(parameter.offset, nodes);
    }
    synchronizer->give_rows(row_nodes(state.layout(), kShards, mode.group().range(kShards), step));
    std::vector<float> rows(kShards);
    EXPECT_TRUE(synchronizer->commit({}, rows, caller).counts());
  }
  std::vector<std::vector<float>> numbers;
  for (const FlatParameter& parameter : state.layout().parameters) {
    const auto weights = state.weights().subspan(parameter.offset, parameter.count);
    numbers.emplace_back(weights.begin(), weights.end());
    for (int k = 0; k < rule->slots(); ++k) {
      const auto slot = synchronizer->slot(static_cast<std::size_t>(k))
                            .subspan(parameter.offset, parameter.count);
      numbers.emplace_back(slot.begin(), slot.end());
    }
  }
  for (std::size_t t = 0; t < state.tables().size(); ++t) {
    const auto weights = state.tables().weights(t);
    numbers.emplace_back(weights.begin(), weights.end());
    for (int k = 0; k < rule->slots(); ++k) {
      const auto slot = synchronizer->table_slot(static_cast<std::size_t>(k), t);
      numbers.emplace_back(slot.begin(), slot.end());
    }
  }
  return numbers;
}

}  // namespace lockstep::testing
