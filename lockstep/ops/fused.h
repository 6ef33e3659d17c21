// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/ops/op.h"

namespace lockstep {

// One element-wise op of a fused chain. Registers 0..n-1 are the chain's inputs; instruction k
// writes register n + k; the last one is the result.
struct FusedInstruction {
  const OpDef* op = nullptr;
  std::vector<int> operands;
  std::vector<double> params;  // the op's attributes, in order
};

// "add(0,1) leaky_relu(2|0.01)" and back. Parsing throws InvalidArgument.
std::string to_text(const std::vector<FusedInstruction>& instructions);
std::vector<FusedInstruction> parse_fused(const std::string& text, std::size_t inputs);

struct FusedAttrs {
  std::string program;
  template <class F>
  void visit(F&& f) {
    f("program", program, "the ops with the registers they read: 'add(0,1) tanh(2)'");
  }
};

const OpDef& fused_elementwise_op();

// True when the op can be one instruction of a chain with these attributes.
bool is_fusable(const OpDef& op, const Attrs& attrs);
FusedInstruction make_instruction(const OpDef& op, const Attrs& attrs, std::vector<int> operands);

// True when an element-wise op gives zero wherever its operands are zero, apart from those that
// `single` marks: they are one element, of any value. Looks into fused chains.
bool preserves_zero(const OpDef& op, const Attrs& attrs, const std::vector<bool>& single);

}  // namespace lockstep
