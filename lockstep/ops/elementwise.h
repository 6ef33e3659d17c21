// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Binary ops broadcast as NumPy does and promote dtypes (tensor/dtype.h, promote).
Tensor add(const Tensor& a, const Tensor& b);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
// True division: integers become float32.
Tensor divide(const Tensor& a, const Tensor& b);
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, const Tensor& b);  // the sign of b, as Python's %
Tensor power(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

// A number takes the tensor's dtype (float32 where it is not integral and the tensor is).
Tensor add(const Tensor& a, double b);
Tensor subtract(const Tensor& a, double b);
Tensor subtract(double a, const Tensor& b);
Tensor multiply(const Tensor& a, double b);
Tensor divide(const Tensor& a, double b);
Tensor divide(double a, const Tensor& b);
Tensor power(const Tensor& a, double b);
Tensor maximum(const Tensor& a, double b);
Tensor minimum(const Tensor& a, double b);

// Comparisons and logic give bool.
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor greater(const Tensor& a, const Tensor& b);
Tensor greater_equal(const Tensor& a, const Tensor& b);
Tensor equal(const Tensor& a, double b);
Tensor not_equal(const Tensor& a, double b);
Tensor less(const Tensor& a, double b);
Tensor less_equal(const Tensor& a, double b);
Tensor greater(const Tensor& a, double b);
Tensor greater_equal(const Tensor& a, double b);
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);

// condition ? a : b, all three broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor clip(const Tensor& x, double low, double high);
// To an integer: the fraction is cut off, what does not fit becomes the nearest end, NaN 0.
Tensor cast(const Tensor& x, DType dtype);

// Sums `x` over the axes along which `shape` was broadcast to x's shape: broadcasting's gradient.
Tensor sum_to(const Tensor& x, const Shape& shape);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return multiply(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return divide(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, double b) { return subtract(a, b); }
inline Tensor operator*(const Tensor& a, double b) { return multiply(a, b); }
inline Tensor operator/(const Tensor& a, double b) { return divide(a, b); }
inline Tensor operator+(double a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(double a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator*(double a, const Tensor& b) { return multiply(b, a); }
inline Tensor operator/(double a, const Tensor& b) { return divide(a, b); }
Tensor operator-(const Tensor& x);  // negative(x), of the same dtype

// Element by element, as less and its kin. There is no operator== nor !=: code that looks for a
// tensor in a container would compare contents. Handles: same_as; elements: equal and not_equal.
inline Tensor operator<(const Tensor& a, const Tensor& b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return greater_equal(a, b); }
inline Tensor operator<(const Tensor& a, double b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, double b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, double b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, double b) { return greater_equal(a, b); }
inline Tensor operator<(double a, const Tensor& b) { return greater(b, a); }
inline Tensor operator<=(double a, const Tensor& b) { return greater_equal(b, a); }
inline Tensor operator>(double a, const Tensor& b) { return less(b, a); }
inline Tensor operator>=(double a, const Tensor& b) { return less_equal(b, a); }

}  // namespace lockstep
