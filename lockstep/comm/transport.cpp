// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

bool Transport::tree_reduce(const TreeCall& /*call*/, Deadline /*deadline*/,
                            std::string_view /*operation*/) {
  return false;
}

bool Transport::native_all_reduce(std::span<std::byte> /*data*/, Element /*element*/,
                                  Reduction /*reduction*/, Deadline /*deadline*/,
                                  std::string_view /*operation*/) {
  return false;
}

bool Transport::barrier(Deadline /*deadline*/, std::string_view /*operation*/) { return false; }

std::span<std::byte> Transport::allocate(std::size_t /*bytes*/, Deadline /*deadline*/) {
  return {};
}

}  // namespace lockstep::comm
