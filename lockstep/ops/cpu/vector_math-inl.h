// SPDX-License-Identifier: Apache-2.0
// Functions on vectors of float32, compiled once for each instruction set: a file that is itself
// compiled so includes it after foreach_target.h. Relative errors stay below 5e-7;
// tests/ops/unary_test.cpp measures them.
#if defined(LOCKSTEP_VECTOR_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_VECTOR_MATH_INL_H
#undef LOCKSTEP_VECTOR_MATH_INL_H
#else
#define LOCKSTEP_VECTOR_MATH_INL_H
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;

HWY_INLINE FloatVec constant(float value) { return hn::Set(FloatTag(), value); }

// 2^n for whole numbers n in -126..127.
template <class IntVec>
HWY_INLINE FloatVec power_of_two(IntVec n) {
  const hn::RebindToSigned<FloatTag> di;
  return hn::BitCast(FloatTag(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

// r of x = n ln(2) + r.
HWY_INLINE FloatVec exp_remainder(FloatVec x, FloatVec n) {
  const FloatVec r = hn::NegMulAdd(n, constant(0.693359375f), x);
  return hn::NegMulAdd(n, constant(-2.12194440e-4f), r);
}

// (exp(r) - 1 - r) / r^2 by a polynomial that is fitted to |r| <= ln(2) / 2.
HWY_INLINE FloatVec exp_polynomial(FloatVec r) {
  FloatVec p = constant(0.00139337332f);
  p = hn::MulAdd(p, r, constant(0.00836323538f));
  p = hn::MulAdd(p, r, constant(0.0416664642f));
  p = hn::MulAdd(p, r, constant(0.166665766f));
  return hn::MulAdd(p, r, constant(0.5f));
}

// exp(x) = 2^n * exp(r) with |r| <= ln(2) / 2. The power is applied in
// two factors, so that results down to the smallest subnormal come out. NaN stays NaN: it must be
// the second operand of Min and Max.
HWY_INLINE FloatVec vector_exp(FloatVec x) {
  const hn::RebindToSigned<FloatTag> di;
  x = hn::Max(constant(-104.0f), hn::Min(constant(89.0f), x));
  const FloatVec n = hn::Round(hn::Mul(x, constant(1.44269504f)));
  const FloatVec r = exp_remainder(x, n);
  const FloatVec p = hn::MulAdd(hn::Mul(r, r), exp_polynomial(r), r);
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  const FloatVec first = power_of_two(half);
  const FloatVec second = power_of_two(hn::Sub(whole, half));
  return hn::Mul(hn::MulAdd(p, first, first), second);
}

// exp(x) for x up to 0 or a little above, where half of vector_exp's work is not needed: results
// below the smallest normal number are 0. Adding 1.5 * 2^23 + 127 leaves the nearest whole number,
// as an exponent is stored, in the lowest bits, from where it is shifted to its place. NaN stays
// NaN.
HWY_INLINE FloatVec exp_of_negative(FloatVec x) {
  const FloatTag d;
  const hn::RebindToSigned<FloatTag> di;
  const FloatVec shifted = hn::MulAdd(x, constant(1.44269504f), constant(12583039.0f));
  const FloatVec n = hn::Sub(shifted, constant(12583039.0f));
  const FloatVec r = exp_remainder(x, n);
  const FloatVec one = constant(1.0f);
  const FloatVec p = hn::MulAdd(hn::MulAdd(exp_polynomial(r), r, one), r, one);
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  const FloatVec result = hn::Mul(p, hn::BitCast(d, exponent));
  return hn::IfThenZeroElse(hn::Lt(x, constant(-87.0f)), result);
}

// Highway's function wraps around above 104.
HWY_INLINE FloatVec vector_expm1(FloatVec x) {
  return hn::Expm1(FloatTag(), hn::Min(constant(89.0f), x));
}

// Highway's logarithms hold for positive finite numbers; this puts the others right.
HWY_INLINE FloatVec log_edges(FloatVec x, FloatVec inner, FloatVec result) {
  const FloatVec infinity = constant(std::numeric_limits<float>::infinity());
  result = hn::IfThenElse(hn::Eq(inner, hn::Zero(FloatTag())), hn::Neg(infinity), result);
  result = hn::IfThenElse(hn::Eq(inner, infinity), infinity, result);
  const FloatVec nan = constant(std::numeric_limits<float>::quiet_NaN());
  return hn::IfThenElse(hn::Or(hn::Lt(inner, hn::Zero(FloatTag())), hn::IsNaN(x)), nan, result);
}

HWY_INLINE FloatVec vector_log(FloatVec x) { return log_edges(x, x, hn::Log(FloatTag(), x)); }

HWY_INLINE FloatVec vector_log1p(FloatVec x) {
  return log_edges(x, hn::Add(x, constant(1.0f)), hn::Log1p(FloatTag(), x));
}

HWY_INLINE FloatVec vector_sigmoid(FloatVec x) {
  const FloatVec one = constant(1.0f);
  return hn::Div(one, hn::Add(one, vector_exp(hn::Neg(x))));
}

// The logistic function at |x| and at -|x|, with no division: that alone would take as long as all
// the rest. 1 / (1 + e) for e in 0..1 is the best quadratic (off by 1 / 99) and two Newton steps,
// each of which squares the error. Results below the smallest normal number are 0.
struct Logistic {
  FloatVec upper;
  FloatVec lower;
};

HWY_INLINE Logistic vector_logistic(FloatVec x) {
  const FloatVec one = constant(1.0f);
  const FloatVec e = exp_of_negative(hn::Neg(hn::Abs(x)));
  const FloatVec sum = hn::Add(one, e);
  FloatVec r = hn::MulAdd(constant(32.0f / 99), e, constant(-80.0f / 99));
  r = hn::MulAdd(r, e, constant(98.0f / 99));
  r = hn::MulAdd(r, hn::NegMulAdd(sum, r, one), r);
  r = hn::MulAdd(r, hn::NegMulAdd(sum, r, one), r);
  return {r, hn::Mul(e, r)};
}

// Near 0 an odd polynomial (minimax-like, fitted on |x| < 0.6), else by the exponential.
HWY_INLINE FloatVec vector_tanh(FloatVec x) {
  const FloatVec size = hn::Abs(x);
  const FloatVec z = hn::Mul(x, x);
  FloatVec p = constant(-0.00627639005f);
  p = hn::MulAdd(p, z, constant(0.0211162159f));
  p = hn::MulAdd(p, z, constant(-0.0538751387f));
  p = hn::MulAdd(p, z, constant(0.13332924f));
  p = hn::MulAdd(p, z, constant(-0.333333304f));
  const FloatVec near = hn::MulAdd(hn::Mul(x, z), p, x);
  const FloatVec e = vector_exp(hn::Mul(constant(-2.0f), size));
  const FloatVec one = constant(1.0f);
  const FloatVec far = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
  return hn::IfThenElse(hn::Lt(size, constant(0.6f)), near, far);
}

// The standard normal distribution at -size: `density` without its factor 1 / sqrt(2 pi), and
// `tail`, the probability below. tail / density is t times a polynomial of t = 1 / (1 + 0.3 size).
struct NormalTail {
  FloatVec density;
  FloatVec tail;
};

// x * x - square: what rounding took. Where nothing is fused, by Dekker's product of halves.
HWY_INLINE FloatVec lost_in_square(FloatVec x, FloatVec square) {
#if HWY_NATIVE_FMA
  return hn::MulSub(x, x, square);
#else
  const hn::RebindToUnsigned<FloatTag> du;
  const auto upper = hn::And(hn::BitCast(du, x), hn::Set(du, 0xfffff000u));
  const FloatVec high = hn::BitCast(FloatTag(), upper);
  const FloatVec low = hn::Sub(x, high);
  const FloatVec crossed = hn::Mul(hn::Add(high, high), low);
  return hn::Add(hn::Add(hn::Sub(hn::Mul(high, high), square), crossed), hn::Mul(low, low));
#endif
}

HWY_INLINE NormalTail normal_tail(FloatVec size) {
  // Beyond 15 both are 0; infinity would make a NaN of the remainder below.
  const FloatVec x = hn::Min(constant(15.0f), size);
  const FloatVec square = hn::Mul(x, x);
  const FloatVec rest = lost_in_square(x, square);
  FloatVec e = vector_exp(hn::Mul(constant(-0.5f), square));
  e = hn::NegMulAdd(hn::Mul(constant(0.5f), rest), e, e);
  const FloatVec t = hn::Div(constant(1.0f), hn::MulAdd(constant(0.3f), x, constant(1.0f)));
  FloatVec p = constant(-0.0204771919f);
  p = hn::MulAdd(p, t, constant(0.111687936f));
  p = hn::MulAdd(p, t, constant(-0.226574678f));
  p = hn::MulAdd(p, t, constant(0.189770343f));
  p = hn::MulAdd(p, t, constant(-0.0779006605f));
  p = hn::MulAdd(p, t, constant(0.0954257569f));
  p = hn::MulAdd(p, t, constant(0.0786114189f));
  p = hn::MulAdd(p, t, constant(0.110194633f));
  p = hn::MulAdd(p, t, constant(0.119575924f));
  p = hn::MulAdd(p, t, constant(0.119686517f));
  return {e, hn::Mul(e, hn::Mul(t, p))};
}

HWY_INLINE FloatVec upper_or_lower(FloatVec x, FloatVec tail) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(FloatTag())), tail, hn::Sub(constant(1.0f), tail));
}

HWY_INLINE FloatVec vector_erf(FloatVec x) {
  const FloatVec size = hn::Abs(x);
  const FloatVec z = hn::Mul(x, x);
  FloatVec p = constant(0.00451530398f);
  p = hn::MulAdd(p, z, constant(-0.0266491172f));
  p = hn::MulAdd(p, z, constant(0.1128104f));
  p = hn::MulAdd(p, z, constant(-0.376125161f));
  p = hn::MulAdd(p, z, constant(1.12837916f));
  const NormalTail normal = normal_tail(hn::Mul(constant(1.41421356f), size));
  const FloatVec far = hn::CopySign(hn::NegMulAdd(constant(2.0f), normal.tail, constant(1.0f)), x);
  return hn::IfThenElse(hn::Lt(size, constant(0.6f)), hn::Mul(p, x), far);
}

// Highway's sine and cosine hold to 39000; beyond, and for NaN, one value at a time.
template <class Vector, class Scalar>
HWY_INLINE FloatVec with_large_angles(FloatVec x, Vector&& vector, Scalar&& scalar) {
  const FloatTag d;
  const auto small = hn::Le(hn::Abs(x), constant(39000.0f));
  const FloatVec y = vector(hn::IfThenElseZero(small, x));
  if (HWY_LIKELY(hn::AllTrue(d, small))) return y;
  HWY_ALIGN float values[hn::MaxLanes(d)];
  hn::Store(x, d, values);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) values[i] = scalar(values[i]);
  return hn::IfThenElse(small, y, hn::Load(d, values));
}

HWY_INLINE FloatVec vector_sin(FloatVec x) {
  return with_large_angles(
      x, [](FloatVec v) HWY_ATTR { return hn::Sin(FloatTag(), v); },
      [](float v) { return std::sin(v); });
}

HWY_INLINE FloatVec vector_cos(FloatVec x) {
  return with_large_angles(
      x, [](FloatVec v) HWY_ATTR { return hn::Cos(FloatTag(), v); },
      [](float v) { return std::cos(v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#endif
