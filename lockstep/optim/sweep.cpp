// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/detail/sweep.h"

#include "lockstep/ops/instruction_set.h"
#include "lockstep/optim/pieces.h"

namespace lockstep::optim {

HWY_EXPORT(own_target);

std::int64_t best_target() {
  settle_instruction_set();
  return HWY_DYNAMIC_DISPATCH(own_target)();
}

double piece_sum_of_squares(std::span<const float> values) {
  return with_loops(best_target(), [&]<class L>(L) { return L::sum_of_squares(values); });
}

}  // namespace lockstep::optim
