// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/side.h"
#include "bench/train_bench.h"

namespace lockstep::bench {

// One way in which PyTorch can train.
struct PeerKind {
  std::string label;
  std::vector<std::string> arguments;  // of bench/peers/train_peer.py
};

// `kind` in each memory format that the model may have.
std::vector<PeerKind> in_each_format(const std::string& model, const PeerKind& kind);

// Those of `kinds` that can run. What cannot is said once, on standard error.
std::vector<Side> start_peers(const std::string& bench, const TrainCase& what,
                              const std::vector<PeerKind>& kinds);

}  // namespace lockstep::bench
