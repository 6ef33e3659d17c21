// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/detail/shm_reduction.h"

namespace lockstep::comm {

// Every rank marks the first chunk of a call with what it does there, and compares: ranks that do
// not do the same would add up what does not belong together.

// Without ranges: for ranks that ask each other for them.
std::uint64_t hash_plan(const TreeCall& tree, std::span<const ShardRange> ranges);

// Before this rank's chunk `number` is published.
inline void leave_mark(const ShmCall& call, std::uint64_t number, const ShmMark& mark) {
  call.segment.rank(call.rank).marks[number % kMarks] = mark;
}

[[noreturn]] void fail_marks(const ShmCall& call, int peer, const ShmMark& own,
                             const ShmMark& other);

// When all have published it. Throws Aborted, on all ranks.
inline void compare_marks(const ShmCall& call, std::uint64_t number, const ShmMark& own) {
  for (int rank = 0; rank < call.size; ++rank) {
    const ShmMark& other = call.segment.rank(rank).marks[number % kMarks];
    if (other != own) fail_marks(call, rank, own, other);
  }
}

// Ends the call for all ranks.
[[noreturn]] void fail_all(const ShmCall& call, const std::string& text);

}  // namespace lockstep::comm
