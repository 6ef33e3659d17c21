// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/tile_ops.h"

#include <array>
#include <cstring>

#include "lockstep/ops/cpu/scalar_functions.h"

// This file is compiled once for each instruction set; the processor's best one runs.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/tile_ops.cpp"
#include <hwy/foreach_target.h>

#include "lockstep/ops/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels {
namespace HWY_NAMESPACE {

using V = FloatVec;
using M = hn::Mask<FloatTag>;

HWY_INLINE V zero() { return hn::Zero(FloatTag()); }
HWY_INLINE V one() { return constant(1.0f); }
HWY_INLINE V number(M mask) { return hn::IfThenElseZero(mask, one()); }
HWY_INLINE M truth(V x) { return hn::Ne(x, zero()); }
HWY_INLINE V choose(M mask, V yes, V no) { return hn::IfThenElse(mask, yes, no); }

// Ops without attributes: static functions of one, two or three vectors.

struct Add {
  static HWY_INLINE V run(V a, V b) { return hn::Add(a, b); }
};
struct Subtract {
  static HWY_INLINE V run(V a, V b) { return hn::Sub(a, b); }
};
struct Multiply {
  static HWY_INLINE V run(V a, V b) { return hn::Mul(a, b); }
};
struct Divide {
  static HWY_INLINE V run(V a, V b) { return hn::Div(a, b); }
};
struct Maximum {
  static HWY_INLINE V run(V a, V b) { return choose(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b); }
};
struct Minimum {
  static HWY_INLINE V run(V a, V b) { return choose(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b); }
};
struct Equal {
  static HWY_INLINE V run(V a, V b) { return number(hn::Eq(a, b)); }
};
struct NotEqual {
  static HWY_INLINE V run(V a, V b) { return number(hn::Ne(a, b)); }
};
struct Less {
  static HWY_INLINE V run(V a, V b) { return number(hn::Lt(a, b)); }
};
struct LessEqual {
  static HWY_INLINE V run(V a, V b) { return number(hn::Le(a, b)); }
};
struct Greater {
  static HWY_INLINE V run(V a, V b) { return number(hn::Gt(a, b)); }
};
struct GreaterEqual {
  static HWY_INLINE V run(V a, V b) { return number(hn::Ge(a, b)); }
};
struct And {
  static HWY_INLINE V run(V a, V b) { return number(hn::And(truth(a), truth(b))); }
};
struct Or {
  static HWY_INLINE V run(V a, V b) { return number(hn::Or(truth(a), truth(b))); }
};
struct Xor {
  static HWY_INLINE V run(V a, V b) { return number(hn::Xor(truth(a), truth(b))); }
};
struct Not {
  static HWY_INLINE V run(V x) { return number(hn::Eq(x, zero())); }
};
struct Where {
  static HWY_INLINE V run(V c, V a, V b) { return choose(truth(c), a, b); }
};

struct Negative {
  static HWY_INLINE V run(V x) { return hn::Neg(x); }
};
struct Exp {
  static HWY_INLINE V run(V x) { return vector_exp(x); }
};
struct Expm1 {
  static HWY_INLINE V run(V x) { return vector_expm1(x); }
};
struct Log {
  static HWY_INLINE V run(V x) { return vector_log(x); }
};
struct Log1p {
  static HWY_INLINE V run(V x) { return vector_log1p(x); }
};
struct Sqrt {
  static HWY_INLINE V run(V x) { return hn::Sqrt(x); }
};
struct Rsqrt {
  static HWY_INLINE V run(V x) { return hn::Div(one(), hn::Sqrt(x)); }
};
struct Square {
  static HWY_INLINE V run(V x) { return hn::Mul(x, x); }
};
struct Reciprocal {
  static HWY_INLINE V run(V x) { return hn::Div(one(), x); }
};
struct Abs {
  static HWY_INLINE V run(V x) { return hn::Abs(x); }
};
struct Sign {
  static HWY_INLINE V run(V x) {
    return hn::Sub(number(hn::Gt(x, zero())), number(hn::Lt(x, zero())));
  }
};
struct Floor {
  static HWY_INLINE V run(V x) { return hn::Floor(x); }
};
struct Ceil {
  static HWY_INLINE V run(V x) { return hn::Ceil(x); }
};
struct Round {
  static HWY_INLINE V run(V x) { return hn::Round(x); }
};
struct Erf {
  static HWY_INLINE V run(V x) { return vector_erf(x); }
};
struct Sin {
  static HWY_INLINE V run(V x) { return vector_sin(x); }
};
struct Cos {
  static HWY_INLINE V run(V x) { return vector_cos(x); }
};
struct Tanh {
  static HWY_INLINE V run(V x) { return vector_tanh(x); }
};
struct Sigmoid {
  static HWY_INLINE V run(V x) { return vector_sigmoid(x); }
};
struct Relu {
  static HWY_INLINE V run(V x) { return hn::IfThenZeroElse(hn::Lt(x, zero()), x); }
};
struct Silu {
  static HWY_INLINE V run(V x) { return hn::Mul(x, vector_sigmoid(x)); }
};
struct Softplus {
  static HWY_INLINE V run(V x) {
    const V rest = hn::Log1p(FloatTag(), vector_exp(hn::Neg(hn::Abs(x))));
    return hn::Add(hn::IfThenZeroElse(hn::Lt(x, zero()), x), rest);
  }
};
struct Selu {
  static HWY_INLINE V run(V x) {
    const V low = hn::Mul(constant(float(scalar::kSeluAlpha)), vector_expm1(x));
    return hn::Mul(constant(float(scalar::kSeluScale)), choose(hn::Gt(x, zero()), x, low));
  }
};

// What x is multiplied by is the logistic function of this.
HWY_INLINE V gelu_inner(V x) {
  const V inner = hn::MulAdd(hn::Mul(constant(float(scalar::kGeluCube)), x), hn::Mul(x, x), x);
  return hn::Mul(constant(float(2 * scalar::kGeluScale)), inner);
}

struct GeluTanh {
  static HWY_INLINE V run(V x) {
    const Logistic s = vector_logistic(gelu_inner(x));
    return hn::Mul(x, choose(hn::Lt(x, zero()), s.lower, s.upper));
  }
};
struct GeluExact {
  static HWY_INLINE V run(V x) {
    return hn::Mul(x, upper_or_lower(x, normal_tail(hn::Abs(x)).tail));
  }
};

struct ReluBackward {
  static HWY_INLINE V run(V g, V y) { return hn::IfThenZeroElse(hn::Le(y, zero()), g); }
};
struct SigmoidBackward {
  static HWY_INLINE V run(V g, V y) { return hn::Mul(hn::Mul(g, y), hn::Sub(one(), y)); }
};
struct TanhBackward {
  static HWY_INLINE V run(V g, V y) { return hn::Mul(g, hn::NegMulAdd(y, y, one())); }
};
struct GeluTanhBackward {
  static HWY_INLINE V run(V g, V x) {
    const Logistic s = vector_logistic(gelu_inner(x));
    const V slope = hn::MulAdd(constant(float(6 * scalar::kGeluScale * scalar::kGeluCube)),
                               hn::Mul(x, x), constant(float(2 * scalar::kGeluScale)));
    const V curve = hn::Mul(hn::Mul(x, hn::Mul(s.lower, s.upper)), slope);
    return hn::Mul(g, hn::Add(curve, choose(hn::Lt(x, zero()), s.lower, s.upper)));
  }
};
struct GeluExactBackward {
  static HWY_INLINE V run(V g, V x) {
    const NormalTail normal = normal_tail(hn::Abs(x));
    const V density = hn::Mul(constant(0.39894228f), normal.density);
    return hn::Mul(g, hn::MulAdd(x, density, upper_or_lower(x, normal.tail)));
  }
};

// Ops with attributes: made from the params, then a function of one vector.

struct LeakyRelu {
  float slope;
  explicit LeakyRelu(const double* p) : slope(float(p[0])) {}
  HWY_INLINE V run(V x) const { return choose(hn::Gt(x, zero()), x, hn::Mul(constant(slope), x)); }
};
struct Elu {
  float alpha;
  explicit Elu(const double* p) : alpha(float(p[0])) {}
  HWY_INLINE V run(V x) const {
    return choose(hn::Gt(x, zero()), x, hn::Mul(constant(alpha), vector_expm1(x)));
  }
};
struct HardSigmoid {
  float alpha, beta;
  explicit HardSigmoid(const double* p) : alpha(float(p[0])), beta(float(p[1])) {}
  HWY_INLINE V run(V x) const {
    const V y = hn::MulAdd(constant(alpha), x, constant(beta));
    return choose(hn::Lt(y, zero()), zero(), choose(hn::Gt(y, one()), one(), y));
  }
};
struct Clip {
  float low, high;
  explicit Clip(const double* p) : low(float(p[0])), high(float(p[1])) {}
  HWY_INLINE V run(V x) const {
    const V l = constant(low);
    const V h = constant(high);
    return choose(hn::Lt(x, l), l, choose(hn::Gt(x, h), h, x));
  }
};

// Loads a vector, or the one value that stands for all of them.
template <bool single>
HWY_INLINE V load(const float* p, std::size_t i) {
  if constexpr (single) return constant(*p);
  return hn::LoadU(FloatTag(), p + i);
}

// The last few values, where a whole vector would reach beyond the run.
template <bool single>
HWY_INLINE V load_rest(const float* p, std::size_t i, std::size_t count) {
  if constexpr (single) return constant(*p);
  HWY_ALIGN float values[hn::MaxLanes(FloatTag())] = {};
  std::memcpy(values, p + i, count * sizeof(float));
  return hn::Load(FloatTag(), values);
}

HWY_INLINE void store_rest(V y, float* out, std::size_t count) {
  HWY_ALIGN float values[hn::MaxLanes(FloatTag())];
  hn::Store(y, FloatTag(), values);
  std::memcpy(out, values, count * sizeof(float));
}

// A processor that is busy with arithmetic does not look far enough ahead in memory: ops that need
// much of it ask early for what comes next. Reaching beyond the end does no harm.
constexpr std::size_t kAhead = 512;
template <class Op>
constexpr bool kBusy = false;
template <>
inline constexpr bool kBusy<GeluTanh> = true;
template <>
inline constexpr bool kBusy<GeluTanhBackward> = true;

template <class Op, bool single>
HWY_INLINE void fetch(const float* p) {
  if constexpr (kBusy<Op> && !single) __builtin_prefetch(p + kAhead);
}

template <class Op>
HWY_INLINE void fetch_to_write(const float* p) {
  if constexpr (kBusy<Op>) __builtin_prefetch(p + kAhead, 1);
}

template <bool single, class Op>
void map_unary(const Op& op, const float* x, float* out, std::size_t n) {
  const std::size_t lanes = hn::Lanes(FloatTag());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    fetch<Op, single>(x + i);
    fetch_to_write<Op>(out + i);
    hn::StoreU(op.run(load<single>(x, i)), FloatTag(), out + i);
  }
  if (i < n) store_rest(op.run(load_rest<single>(x, i, n - i)), out + i, n - i);
}

template <class Op, bool single>
void unary_tile(const float* const* in, const double*, float* out, std::size_t n) {
  map_unary<single>(Op(), in[0], out, n);
}

template <class Op, bool single>
void unary_tile_with(const float* const* in, const double* params, float* out, std::size_t n) {
  map_unary<single>(Op(params), in[0], out, n);
}

// Bit i of `single`: input i is one value.
template <class Op, unsigned single>
void binary_tile(const float* const* in, const double*, float* out, std::size_t n) {
  constexpr bool sa = (single & 1) != 0;
  constexpr bool sb = (single & 2) != 0;
  const float* a = in[0];
  const float* b = in[1];
  const std::size_t lanes = hn::Lanes(FloatTag());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    fetch<Op, sa>(a + i);
    fetch<Op, sb>(b + i);
    fetch_to_write<Op>(out + i);
    hn::StoreU(Op::run(load<sa>(a, i), load<sb>(b, i)), FloatTag(), out + i);
  }
  if (i < n)
    store_rest(Op::run(load_rest<sa>(a, i, n - i), load_rest<sb>(b, i, n - i)), out + i, n - i);
}

template <class Op, unsigned single>
void ternary_tile(const float* const* in, const double*, float* out, std::size_t n) {
  constexpr bool sa = (single & 1) != 0;
  constexpr bool sb = (single & 2) != 0;
  constexpr bool sc = (single & 4) != 0;
  const std::size_t lanes = hn::Lanes(FloatTag());
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(Op::run(load<sa>(in[0], i), load<sb>(in[1], i), load<sc>(in[2], i)), FloatTag(),
               out + i);
  const std::size_t rest = n - i;
  if (rest > 0)
    store_rest(Op::run(load_rest<sa>(in[0], i, rest), load_rest<sb>(in[1], i, rest),
                       load_rest<sc>(in[2], i, rest)),
               out + i, rest);
}

// For what has no vector form.
template <class Op, unsigned single>
void scalar_tile(const float* const* in, const double*, float* out, std::size_t n) {
  constexpr std::size_t a_step = (single & 1) != 0 ? 0 : 1;
  constexpr std::size_t b_step = (single & 2) != 0 ? 0 : 1;
  const float a = *in[0];
  const float b = *in[1];
  for (std::size_t i = 0; i < n; ++i) out[i] = Op{}(a_step ? in[0][i] : a, b_step ? in[1][i] : b);
}

template <bool single>
void gelu_tile(const float* const* in, const double* params, float* out, std::size_t n) {
  if (params[0] != 0.0) return unary_tile<GeluTanh, single>(in, params, out, n);
  unary_tile<GeluExact, single>(in, params, out, n);
}

template <unsigned single>
void gelu_backward_tile(const float* const* in, const double* params, float* out, std::size_t n) {
  if (params[0] != 0.0) return binary_tile<GeluTanhBackward, single>(in, params, out, n);
  binary_tile<GeluExactBackward, single>(in, params, out, n);
}

// The functions of an op, indexed by single_inputs.
struct Row {
  std::string_view op;
  std::array<TileFn, 8> run;
};

template <class Op>
constexpr Row unary(std::string_view op) {
  return {op, {unary_tile<Op, false>, unary_tile<Op, true>}};
}
template <class Op>
constexpr Row with_params(std::string_view op) {
  return {op, {unary_tile_with<Op, false>, unary_tile_with<Op, true>}};
}
template <class Op>
constexpr Row binary(std::string_view op) {
  return {op, {binary_tile<Op, 0>, binary_tile<Op, 1>, binary_tile<Op, 2>, binary_tile<Op, 3>}};
}
template <class Op>
constexpr Row by_value(std::string_view op) {
  return {op, {scalar_tile<Op, 0>, scalar_tile<Op, 1>, scalar_tile<Op, 2>, scalar_tile<Op, 3>}};
}
template <class Op>
constexpr Row ternary(std::string_view op) {
  return {op,
          {ternary_tile<Op, 0>, ternary_tile<Op, 1>, ternary_tile<Op, 2>, ternary_tile<Op, 3>,
           ternary_tile<Op, 4>, ternary_tile<Op, 5>, ternary_tile<Op, 6>, ternary_tile<Op, 7>}};
}

constexpr Row kRows[] = {
    binary<Add>("add"),
    binary<Subtract>("subtract"),
    binary<Multiply>("multiply"),
    binary<Divide>("divide"),
    by_value<scalar::FloorDivide>("floor_divide"),
    by_value<scalar::Remainder>("remainder"),
    by_value<scalar::Power>("power"),
    binary<Maximum>("maximum"),
    binary<Minimum>("minimum"),
    binary<Equal>("equal"),
    binary<NotEqual>("not_equal"),
    binary<Less>("less"),
    binary<LessEqual>("less_equal"),
    binary<Greater>("greater"),
    binary<GreaterEqual>("greater_equal"),
    binary<And>("logical_and"),
    binary<Or>("logical_or"),
    binary<Xor>("logical_xor"),
    unary<Not>("logical_not"),
    ternary<Where>("where"),
    with_params<Clip>("clip"),
    unary<Negative>("negative"),
    unary<Exp>("exp"),
    unary<Expm1>("expm1"),
    unary<Log>("log"),
    unary<Log1p>("log1p"),
    unary<Sqrt>("sqrt"),
    unary<Rsqrt>("rsqrt"),
    unary<Square>("square"),
    unary<Reciprocal>("reciprocal"),
    unary<Abs>("abs"),
    unary<Sign>("sign"),
    unary<Floor>("floor"),
    unary<Ceil>("ceil"),
    unary<Round>("round"),
    unary<Erf>("erf"),
    unary<Sin>("sin"),
    unary<Cos>("cos"),
    unary<Tanh>("tanh"),
    unary<Sigmoid>("sigmoid"),
    unary<Softplus>("softplus"),
    unary<Relu>("relu"),
    with_params<LeakyRelu>("leaky_relu"),
    with_params<Elu>("elu"),
    unary<Selu>("selu"),
    {"gelu", {gelu_tile<false>, gelu_tile<true>}},
    unary<Silu>("silu"),
    with_params<HardSigmoid>("hard_sigmoid"),
    binary<ReluBackward>("relu_backward"),
    binary<SigmoidBackward>("sigmoid_backward"),
    binary<TanhBackward>("tanh_backward"),
    {"gelu_backward",
     {gelu_backward_tile<0>, gelu_backward_tile<1>, gelu_backward_tile<2>, gelu_backward_tile<3>}},
};

TileFn find_tile(std::string_view op, unsigned single_inputs) {
  for (const Row& row : kRows)
    if (row.op == op) return row.run[single_inputs & 7];
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(find_tile);

TileFn tile_function(std::string_view op, unsigned single_inputs) {
  if (single_inputs > 7) return nullptr;
  return HWY_DYNAMIC_DISPATCH(find_tile)(op, single_inputs);
}

}  // namespace lockstep::kernels
#endif
