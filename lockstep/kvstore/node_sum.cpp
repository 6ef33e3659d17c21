// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/node_sum.h"

#include <algorithm>
#include <cstring>

#include "lockstep/comm/fold.h"

namespace lockstep::kvstore {

void add_nodes(std::span<const Synchronizer::Node> nodes, std::span<float> result) {
  std::fill(result.begin(), result.end(), 0.0F);
  const auto bytes = std::as_writable_bytes(result);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const auto node = std::as_bytes(nodes[n].sum);
    if (n == 0)
      std::memcpy(bytes.data(), node.data(), bytes.size());
    else
      comm::combine(comm::Element::float32, comm::Reduction::sum, bytes.data(), node.data(),
                    bytes.data(), result.size());
  }
}

}  // namespace lockstep::kvstore
