// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

// The loops, compiled for a target of Highway.
template <std::int64_t target>
struct Loops;

}  // namespace lockstep::optim

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/optim/detail/sweep-inl.h"
#include <hwy/foreach_target.h>

#include "lockstep/optim/detail/sweep-inl.h"

namespace lockstep::optim {

// The processor's best, of those that are compiled.
std::int64_t best_target();

template <std::int64_t targets = HWY_TARGETS, class F>
auto with_loops(std::int64_t wanted, const F& body) {
  constexpr std::int64_t one = targets & -targets;
  if constexpr (one == targets)
    return body(Loops<one>());
  else
    return wanted == one ? body(Loops<one>()) : with_loops<targets & ~one>(wanted, body);
}

// One pass over a piece with a rule, by the best instructions the processor has. A rule is a struct
// with the number of its slots (kSlots) and the arithmetic for one element (step), which the loops
// take in.
template <class R>
void sweep(const R& rule, const Piece& piece) {
  with_loops(best_target(), [&]<class L>(L) { L::sweep(rule, piece); });
}

// The sums of squares of a piece's weights and of the directions that the rule gives.
template <class R>
PieceNorms measure(const R& rule, const Piece& piece) {
  return with_loops(best_target(), [&]<class L>(L) { return L::measure(rule, piece); });
}

}  // namespace lockstep::optim
