// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::kvstore {

// How far the workers of a store may be apart.
struct Pace {
  std::string_view type = "ps_sync";
  // A push is added to those of all workers before it counts, so that all have the same values;
  // otherwise it counts as it comes.
  bool in_step = true;
  // A worker that has pushed so many times more than the slowest one waits for it.
  std::uint64_t bound = ~std::uint64_t{0};
};

}  // namespace lockstep::kvstore
