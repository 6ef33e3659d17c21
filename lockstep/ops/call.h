// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/ops/op.h"

namespace lockstep {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// What somebody gives an op who knows it by its documentation alone, as Python's wrappers do.
struct OpArguments {
  std::vector<Tensor> positional = {};   // in the order of the op's inputs; undefined: left out
  std::vector<NamedTensor> inputs = {};  // a repeated input comes once for each of its tensors
  std::vector<AttrField> attrs = {};     // those that differ from their defaults
};

// All outputs of the op, its inputs promoted. Throws InvalidArgument that begins with the op's name
// for a keyword it does not have (naming the nearest), an input that is missing or given twice, and
// an attribute of another type.
std::vector<Tensor> call_op(const OpDef& op, const OpArguments& arguments);

}  // namespace lockstep
