// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/layers/lambda.h"

#include "lockstep/base/error.h"

namespace lockstep::nn {

Lambda::Lambda(Function function, std::string description)
    : function_(std::move(function)), description_(std::move(description)) {
  if (!function_) throw InvalidArgument("lambda: there is no function");
}

Tensor Lambda::forward(const Tensor& x) { return function_(x); }

std::shared_ptr<Lambda> lambda(Lambda::Function function, std::string description) {
  return std::make_shared<Lambda>(std::move(function), std::move(description));
}

}  // namespace lockstep::nn
