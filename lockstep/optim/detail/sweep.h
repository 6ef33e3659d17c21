// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/optim/detail/rules.h"
#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

// One pass over a piece with a rule, by the best instructions the processor has.
void sweep(const rules::Sgd& rule, const Piece& piece);
void sweep(const rules::SgdMomentum& rule, const Piece& piece);
void sweep(const rules::Nesterov& rule, const Piece& piece);
void sweep(const rules::SignSgd& rule, const Piece& piece);
void sweep(const rules::Signum& rule, const Piece& piece);
void sweep(const rules::Adam& rule, const Piece& piece);
void sweep(const rules::Adamax& rule, const Piece& piece);
void sweep(const rules::Nadam& rule, const Piece& piece);
void sweep(const rules::AdaGrad& rule, const Piece& piece);
void sweep(const rules::AdaDelta& rule, const Piece& piece);
void sweep(const rules::RmsProp& rule, const Piece& piece);
void sweep(const rules::RmsPropMomentum& rule, const Piece& piece);
void sweep(const rules::CenteredRmsProp& rule, const Piece& piece);
void sweep(const rules::CenteredRmsPropMomentum& rule, const Piece& piece);
void sweep(const rules::Ftrl& rule, const Piece& piece);
void sweep(const rules::Lars& rule, const Piece& piece);
void sweep(const rules::Lamb& rule, const Piece& piece);

// The sums of squares of a piece's weights and of the directions that the rule gives.
PieceNorms measure(const rules::Lars& rule, const Piece& piece);
PieceNorms measure(const rules::Lamb& rule, const Piece& piece);

}  // namespace lockstep::optim
