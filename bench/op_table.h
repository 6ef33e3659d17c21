// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/graph/trace.h"

namespace lockstep::bench {

// An operand of a benchmark: floats in [-0.5, 0.5), or int64 class numbers below `classes`.
struct Operand {
  Shape shape;
  std::int64_t classes = 0;
};

// An op at a shape that means something. The peer knows the op by the same name.
struct OpBench {
  std::string op;
  std::vector<Operand> operands;
  TensorFunction run;

  // "conv f:32,64,32,32 f:128,64,3,3": what the peer is asked, and the case's name.
  std::string str() const;
};

std::vector<OpBench> op_benches();

// The same values on both sides: element i of operand number `place` is a multiplicative hash.
Tensor make_operand(const Operand& operand, std::uint32_t place);

}  // namespace lockstep::bench
