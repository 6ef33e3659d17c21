// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/detail/shm_reduction.h"

namespace lockstep::comm {

// Every rank leaves a signature with the first chunk of a call, of what it does there, and
// compares: ranks that do not do the same would add up what does not belong together.

// Without ranges: for ranks that ask each other for them.
std::uint64_t hash_plan(const TreeCall& tree, std::span<const ShardRange> ranges);

// Before this rank's chunk `number` is published.
inline void write_signature(const ShmCall& call, std::uint64_t number,
                            const ShmSignature& signature) {
  call.segment.rank(call.rank).signatures[number % kSignatures] = signature;
}

[[noreturn]] void fail_signatures(const ShmCall& call, int peer, const ShmSignature& own,
                                  const ShmSignature& other);

// When all have published it. Throws Aborted, on all ranks.
inline void compare_signatures(const ShmCall& call, std::uint64_t number, const ShmSignature& own) {
  for (int rank = 0; rank < call.size; ++rank) {
    const ShmSignature& other = call.segment.rank(rank).signatures[number % kSignatures];
    if (other != own) fail_signatures(call, rank, own, other);
  }
}

// Ends the call for all ranks.
[[noreturn]] void fail_all(const ShmCall& call, const std::string& text);

}  // namespace lockstep::comm
