// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/transform.h"

namespace lockstep::data::detail {

// Of transforms that change values and move no pixel.
inline Tensor leave_mask(const Tensor& mask, const RandomKey&) { return mask; }

inline Tensor apply_to_mask(const Transform& transform, const Tensor& mask, const RandomKey& key) {
  return transform.apply_mask ? transform.apply_mask(mask, key) : transform.apply(mask, key);
}

}  // namespace lockstep::data::detail
