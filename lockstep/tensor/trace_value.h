// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

namespace lockstep {

// How far back gradients may go from a symbolic tensor when its graph is differentiated: all the
// way, only to this value if it is an input of the graph (attach_grad made it a leaf), or nowhere.
enum class History : std::uint8_t { whole, leaf, none };

// Which value of which recording a symbolic tensor stands for. Each handle has its own.
struct TraceValue {
  std::shared_ptr<const void> recording;  // kept alive, so that no later one has its address
  std::int32_t node = -1;
  std::int32_t output = 0;
  History history = History::whole;
};

}  // namespace lockstep
