// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <span>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Tensors that a call reads: a parameter that takes a vector, a span or a braced list. It owns
// nothing, so it is a parameter and nothing else.
class TensorList : public std::span<const Tensor> {
 public:
  using span::span;
  TensorList(std::span<const Tensor> tensors) : span(tensors) {}
  TensorList(std::initializer_list<Tensor> tensors) : span(std::data(tensors), tensors.size()) {}
};

}  // namespace lockstep
