// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/optim/detail/rules.h"
#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

// One pass over a piece with a rule, by the best instructions the processor has.
void sweep(const rules::Rule& rule, const Piece& piece);

// The sums of squares of a piece's weights and of the directions that the rule gives; it must be
// one that gives them.
PieceNorms measure(const rules::Rule& rule, const Piece& piece);

}  // namespace lockstep::optim
