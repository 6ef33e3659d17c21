// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/elementwise.h"

#include "lockstep/ops/cpu/loops.h"
#include "lockstep/ops/cpu/scalar_functions.h"
#include "lockstep/ops/cpu/tile_run.h"
#include "lockstep/ops/elementwise_attrs.h"

namespace lockstep::kernels {
namespace {

// Calls f with the C++ type of a dtype that arithmetic is done in.
template <class F>
void visit_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float64: return f(TypeTag<double>{});
    case DType::int8: return f(TypeTag<std::int8_t>{});
    case DType::uint8: return f(TypeTag<std::uint8_t>{});
    case DType::int16: return f(TypeTag<std::int16_t>{});
    case DType::int32: return f(TypeTag<std::int32_t>{});
    case DType::int64: return f(TypeTag<std::int64_t>{});
    default: fail_check("not a number dtype");
  }
}

template <class F>
void run_numbers(const KernelCall& call) {
  visit_number(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_binary<T, T>(call, F{});
  });
}

template <class F>
void run_bool(const KernelCall& call) {
  map_binary<bool, bool>(call, F{});
}

template <class F>
void run_float64(const KernelCall& call) {
  map_binary<double, double>(call, F{});
}

template <class F>
void run_compare(const KernelCall& call) {
  visit_dtype(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_binary<T, bool>(call, F{});
  });
}

struct Equal {
  bool operator()(auto a, auto b) const { return a == b; }
};
struct NotEqual {
  bool operator()(auto a, auto b) const { return a != b; }
};
struct Less {
  bool operator()(auto a, auto b) const { return a < b; }
};
struct LessEqual {
  bool operator()(auto a, auto b) const { return a <= b; }
};
struct Greater {
  bool operator()(auto a, auto b) const { return a > b; }
};
struct GreaterEqual {
  bool operator()(auto a, auto b) const { return a >= b; }
};
struct And {
  bool operator()(bool a, bool b) const { return a && b; }
};
struct Or {
  bool operator()(bool a, bool b) const { return a || b; }
};
struct Xor {
  bool operator()(bool a, bool b) const { return a != b; }
};

void run_not(const KernelCall& call) {
  map_unary<bool, bool>(call, [](bool x) { return !x; });
}

// Steps are 0 or 1, known when compiled. A mask of bytes in place of a branch on bools, so that the
// loop vectorises.
template <std::int64_t a_step, std::int64_t b_step, class T>
void choose_row(const std::uint8_t* condition, const T* a, const T* b, T* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const T mask = static_cast<T>(-static_cast<T>(condition[i] != 0));
    out[i] = static_cast<T>((a[i * a_step] & mask) | (b[i * b_step] & static_cast<T>(~mask)));
  }
}

template <class T>
void where_row(const std::uint8_t* condition, std::int64_t c_step, const T* a, std::int64_t a_step,
               const T* b, std::int64_t b_step, T* out, std::int64_t count) {
  if (c_step == 1 && a_step == 1 && b_step == 1)
    return choose_row<1, 1>(condition, a, b, out, count);
  if (c_step == 1 && a_step == 1 && b_step == 0)
    return choose_row<1, 0>(condition, a, b, out, count);
  if (c_step == 1 && a_step == 0 && b_step == 1)
    return choose_row<0, 1>(condition, a, b, out, count);
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = condition[i * c_step] ? a[i * a_step] : b[i * b_step];
}

template <class T>
void where_of(const KernelCall& call) {
  const std::uint8_t* condition = call.inputs[0].as<std::uint8_t>();
  const T* a = call.inputs[1].as<T>();
  const T* b = call.inputs[2].as<T>();
  T* out = call.outputs[0].as<T>();
  for_each_row(make_walk<4>({&call.outputs[0], &call.inputs[0], &call.inputs[1], &call.inputs[2]}),
               [&](const auto& at, const auto& step, std::int64_t count) {
                 where_row(condition + at[1], step[1], a + at[2], step[2], b + at[3], step[3],
                           out + at[0], count);
               });
}

// Values are only moved, so their size is all that matters.
void run_where(const KernelCall& call) {
  switch (item_size(call.outputs[0].dtype)) {
    case 1: return where_of<std::uint8_t>(call);
    case 2: return where_of<std::uint16_t>(call);
    case 4: return where_of<std::uint32_t>(call);
    default: return where_of<std::uint64_t>(call);
  }
}

// A bound as a value of T: the nearest one inside the range that [low, high] leaves.
template <class T>
T bound_as(double value, bool is_low) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    const double whole = is_low ? std::ceil(value) : std::floor(value);
    if (whole <= static_cast<double>(std::numeric_limits<T>::lowest()))
      return std::numeric_limits<T>::lowest();
    if (whole >= static_cast<double>(std::numeric_limits<T>::max()))
      return std::numeric_limits<T>::max();
    return static_cast<T>(whole);
  }
}

void run_clip(const KernelCall& call) {
  const auto& attrs = call.attrs.as<ClipAttrs>();
  visit_number(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T low = bound_as<T>(attrs.low, true);
    const T high = bound_as<T>(attrs.high, false);
    map_unary<T, T>(call, [=](T x) { return x < low ? low : x > high ? high : x; });
  });
}

void run_cast(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const TensorView& out = call.outputs[0];
  copy_strided(out.shape, {x.data, x.strides, x.dtype}, {out.data, out.strides, out.dtype});
}

constexpr DTypeSet kLoopNumbers = DTypeSet{DType::float64} | kIntTypes;
constexpr DTypeSet kBool{DType::boolean};

template <OpName op, class F>
constexpr KernelCandidate kNumbers[] = {tile_kernel(run_tile_op<op>),
                                        loop_kernel(run_numbers<F>, kLoopNumbers)};
template <OpName op, class F>
constexpr KernelCandidate kNumbersAndBool[] = {tile_kernel(run_tile_op<op>),
                                               loop_kernel(run_numbers<F>, kLoopNumbers),
                                               loop_kernel(run_bool<F>, kBool)};
template <OpName op, class F>
constexpr KernelCandidate kFloats[] = {tile_kernel(run_tile_op<op>),
                                       loop_kernel(run_float64<F>, {DType::float64})};
template <class F>
constexpr KernelCandidate kCompare[] = {loop_kernel(run_compare<F>, kAllTypes)};
template <class F>
constexpr KernelCandidate kLogic[] = {loop_kernel(run_bool<F>, kBool)};
constexpr KernelCandidate kNot[] = {loop_kernel(run_not, kBool)};
constexpr KernelCandidate kWhere[] = {loop_kernel(run_where, kBool)};
constexpr KernelCandidate kClip[] = {tile_kernel(run_tile_op_with<"clip", ClipAttrs>),
                                     loop_kernel(run_clip, kLoopNumbers)};
constexpr KernelCandidate kCast[] = {loop_kernel(run_cast, kAllTypes)};

struct Row {
  std::string_view op;
  std::span<const KernelCandidate> kernels;
};

constexpr Row kRows[] = {
    {"add", kNumbersAndBool<"add", scalar::Add>},
    {"subtract", kNumbers<"subtract", scalar::Subtract>},
    {"multiply", kNumbersAndBool<"multiply", scalar::Multiply>},
    {"divide", kFloats<"divide", scalar::Divide>},
    {"floor_divide", kNumbers<"floor_divide", scalar::FloorDivide>},
    {"remainder", kNumbers<"remainder", scalar::Remainder>},
    {"power", kNumbers<"power", scalar::Power>},
    {"maximum", kNumbersAndBool<"maximum", scalar::Maximum>},
    {"minimum", kNumbersAndBool<"minimum", scalar::Minimum>},
    {"equal", kCompare<Equal>},
    {"not_equal", kCompare<NotEqual>},
    {"less", kCompare<Less>},
    {"less_equal", kCompare<LessEqual>},
    {"greater", kCompare<Greater>},
    {"greater_equal", kCompare<GreaterEqual>},
    {"logical_and", kLogic<And>},
    {"logical_or", kLogic<Or>},
    {"logical_xor", kLogic<Xor>},
    {"logical_not", kNot},
    {"where", kWhere},
    {"clip", kClip},
    {"cast", kCast},
};

}  // namespace

std::span<const KernelCandidate> elementwise_kernels(std::string_view op) {
  for (const Row& row : kRows)
    if (row.op == op) return row.kernels;
  fail_check("no such element-wise kernel");
}

}  // namespace lockstep::kernels
