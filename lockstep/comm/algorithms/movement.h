// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/algorithms/call.h"

namespace lockstep::comm {

// Collectives that move bytes and compute nothing. Communicator has checked the sizes.
void broadcast(const Call& call, std::span<std::byte> data, int root);
void all_gather(const Call& call, std::span<const std::byte> part, std::span<std::byte> all);
// Each rank has its part of the data's elements, of `size` bytes; those of the others come.
void all_gather_parts(const Call& call, std::span<std::byte> data,
                      std::span<const ElementRanges> parts, std::size_t size);
void gather(const Call& call, std::span<const std::byte> part, std::span<std::byte> all, int root);
void scatter(const Call& call, std::span<const std::byte> all, std::span<std::byte> part, int root);
void all_to_all(const Call& call, std::span<const std::byte> data, std::span<std::byte> result);
void barrier(const Call& call);

}  // namespace lockstep::comm
