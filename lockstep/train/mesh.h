// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/graph/slice_tracer.h"

namespace lockstep::train {

// How a layer is split into slices: "blocks.*.mlp.fc1", where * stands for anything.
struct Split {
  std::string layers;
  SplitWay way = SplitWay::automatic;
  bool operator==(const Split&) const = default;
};

// What a step is computed as, whoever computes it: shards times segments times slices. The result
// depends on it and on the seed, never on which worker computes which part.
struct Mesh {
  std::int64_t shards = 0;  // 0: TrainerOptions::shards
  // So many stretches of the net, of about the same work; where there are cuts, one more than them.
  std::int64_t segments = 1;
  // Blocks of the net, "blocks.2", with whose calls segments begin.
  std::vector<std::string> cuts = {};
  // So many parts that layers which can be split are computed as.
  std::int64_t slices = 1;
  // Layers that are split otherwise than they would be. The last one that names a layer counts.
  std::vector<Split> splits = {};
  bool operator==(const Mesh&) const = default;
};

}  // namespace lockstep::train
