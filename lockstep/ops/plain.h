// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// While it lives, some tensors of this thread are an interceptor's own and stand for others, which
// `resolve` gives; it returns all the rest as they are. Scopes do not nest.
class OwnTensorScope {
 public:
  explicit OwnTensorScope(std::function<Tensor(const Tensor&)> resolve);
  ~OwnTensorScope();
  OwnTensorScope(const OwnTensorScope&) = delete;
  OwnTensorScope& operator=(const OwnTensorScope&) = delete;

 private:
  friend Tensor plain(const Tensor& x);
  std::function<Tensor(const Tensor&)> resolve_;
};

// x for those who are told of more than ops.
Tensor plain(const Tensor& x);

}  // namespace lockstep
