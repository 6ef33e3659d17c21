// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::nn::detail {

// `value` itself when it is 1 or more.
inline std::int64_t positive(const char* layer, const char* what, std::int64_t value) {
  if (value < 1) throw InvalidArgument("{}: {} is {}, expected 1 or more", layer, what, value);
  return value;
}

inline double probability(const char* layer, const char* what, double value) {
  if (!(value >= 0.0 && value < 1.0))
    throw InvalidArgument("{}: {} is {}, expected 0 <= {} < 1", layer, what, value, what);
  return value;
}

inline void check_rank(const std::string& layer, const Tensor& x, int at_least) {
  if (x.rank() < at_least)
    throw InvalidArgument("{}: x has shape {}, expected {} or more axes", layer, x.shape().str(),
                          at_least);
}

// How many blocks of rows a recurrent layer's weights have.
inline std::int64_t gates_of(const std::string& mode) {
  if (mode == "lstm") return 4;
  return mode == "gru" ? 3 : 1;
}

}  // namespace lockstep::nn::detail
