// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::detail {

// For functions that look at a tensor before apply() does.
inline void check_defined(std::string_view op, const Tensor& x, std::size_t input = 0) {
  if (!x.defined()) throw InvalidArgument("{}: input {} is undefined", op, input);
}

inline void check_floating(std::string_view op, const TensorInfo& x) {
  if (!is_floating(x.dtype))
    throw InvalidArgument("{}: takes floating tensors, got {}", op, name_of(x.dtype));
}

// Throws the Error that is being handled again, with `name` for the name its message begins with.
[[noreturn]] void rethrow_named(std::string_view name);

// f(), whose errors begin with `name`: the function that the user called, not one it is made of.
template <class F>
decltype(auto) named(std::string_view name, F&& f) {
  try {
    return f();
  } catch (const Error&) {
    rethrow_named(name);
  }
}

}  // namespace lockstep::detail
