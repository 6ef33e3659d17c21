// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct OpDef;

// What an op's inputs are cast to before it runs. Functions of C++, symbols and calls by name all
// follow the rule that the op's definition has; inference itself takes no mixed dtypes.
enum class Promotion : std::uint8_t {
  none,
  common,             // all to the dtype that promote() gives
  floating,           // as common; integers and bool to float32
  boolean,            // all to bool
  condition,          // the first to bool, the others as common
  like_first,         // the others to the first one's dtype
  floats_like_first,  // as like_first, but integers and bool stay
  rest_int64,         // the others to int64
};

// The same in words, for documentation; empty for none.
std::string_view describe(Promotion rule);

// What one of the inputs of these dtypes is cast to. Inputs that are cast already stay as they are.
DType promoted_dtype(Promotion rule, std::span<const DType> inputs, std::size_t input);

// apply and apply_one (dispatch.h), after the op's rule.
std::vector<Tensor> apply_promoted(const OpDef& op, std::span<const Tensor> inputs,
                                   const Attrs& attrs = {});
Tensor apply_one_promoted(const OpDef& op, std::initializer_list<Tensor> inputs,
                          const Attrs& attrs = {});

// The dtype that a number takes beside a tensor: the tensor's own, the next wider one where the
// number does not fit, float32 where it is a fraction and the tensor has integers.
DType number_dtype(DType beside, double value);

}  // namespace lockstep
