// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Functions that are not defined on integers turn them into float32. Outside of a function's domain
// the result is NaN.
Tensor exp2(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor erfinv(const Tensor& x);
Tensor trunc(const Tensor& x);  // towards 0

// bool; no integer is NaN or infinite.
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);

// These broadcast and promote as add does.
Tensor atan2(const Tensor& a, const Tensor& b);      // the angle of the point (b, a)
Tensor fmod(const Tensor& a, const Tensor& b);       // the sign of a, as C's %
Tensor hypot(const Tensor& a, const Tensor& b);      // sqrt(a^2 + b^2)
Tensor logaddexp(const Tensor& a, const Tensor& b);  // log(exp(a) + exp(b))

}  // namespace lockstep
