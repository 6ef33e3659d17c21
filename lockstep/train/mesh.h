// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::train {

// What a step is computed as, whoever computes it: shards times segments. The result depends on it
// and on the seed, never on which worker computes which part.
struct Mesh {
  std::int64_t shards = 0;  // 0: TrainerOptions::shards
  // So many stretches of the net, of about the same work; where there are cuts, one more than them.
  std::int64_t segments = 1;
  // Blocks of the net, "blocks.2", with whose calls segments begin.
  std::vector<std::string> cuts = {};
  bool operator==(const Mesh&) const = default;
};

}  // namespace lockstep::train
