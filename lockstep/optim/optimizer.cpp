// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/optimizer.h"

#include "lockstep/base/error.h"

namespace lockstep::optim {

PieceNorms Optimizer::measure(const UpdateContext&, const Piece&) const {
  fail_check("measure() of an update rule that does not measure");
}

std::map<std::string, double> Optimizer::arguments() const {
  throw Unsupported("optimizer '{}': is made by hand, expected one that make_optimizer knows",
                    name());
}

}  // namespace lockstep::optim
