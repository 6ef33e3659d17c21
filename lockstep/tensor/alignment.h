// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/storage.h"

namespace lockstep {

// The room that a block takes when another one, aligned too, follows it.
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace lockstep
