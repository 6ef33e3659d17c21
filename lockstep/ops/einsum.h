// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// A sum of products, in Einstein's notation: "bij,bjk->bik". Each operand names its axes with
// letters. Axes of one letter belong together, axes that the result does not name are summed, one
// letter twice in an operand takes the diagonal, "..." stands for axes that broadcast. Without "->"
// the result has the letters that occur once, in alphabetical order, after those of "...".
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

}  // namespace lockstep
