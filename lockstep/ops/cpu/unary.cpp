// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/unary.h"

#include "lockstep/ops/cpu/loops.h"
#include "lockstep/ops/cpu/scalar_functions.h"

namespace lockstep::kernels {
namespace {

template <class F>
void visit_float(DType dtype, F&& f) {
  if (dtype == DType::float32) return f(TypeTag<float>{});
  f(TypeTag<double>{});
}

template <class F>
void run_floats(const KernelCall& call) {
  visit_float(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_unary<T, T>(call, F{});
  });
}

template <class F>
void run_integers(const KernelCall& call) {
  switch (call.inputs[0].dtype) {
    case DType::int8: return map_unary<std::int8_t, std::int8_t>(call, F{});
    case DType::uint8: return map_unary<std::uint8_t, std::uint8_t>(call, F{});
    case DType::int32: return map_unary<std::int32_t, std::int32_t>(call, F{});
    default: return map_unary<std::int64_t, std::int64_t>(call, F{});
  }
}

template <class F>
void run_backward(const KernelCall& call) {
  visit_float(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_binary<T, T>(call, F{});
  });
}

struct Exp {
  template <class T>
  T operator()(T x) const { return std::exp(x); }
};
struct Expm1 {
  template <class T>
  T operator()(T x) const { return std::expm1(x); }
};
struct Log {
  template <class T>
  T operator()(T x) const { return std::log(x); }
};
struct Log1p {
  template <class T>
  T operator()(T x) const { return std::log1p(x); }
};
struct Sqrt {
  template <class T>
  T operator()(T x) const { return std::sqrt(x); }
};
struct Rsqrt {
  template <class T>
  T operator()(T x) const { return 1 / std::sqrt(x); }
};
struct Reciprocal {
  template <class T>
  T operator()(T x) const { return 1 / x; }
};
struct Erf {
  template <class T>
  T operator()(T x) const { return std::erf(x); }
};
struct Sin {
  template <class T>
  T operator()(T x) const { return std::sin(x); }
};
struct Cos {
  template <class T>
  T operator()(T x) const { return std::cos(x); }
};
struct Tanh {
  template <class T>
  T operator()(T x) const { return std::tanh(x); }
};
struct Sigmoid {
  template <class T>
  T operator()(T x) const { return scalar::sigmoid(x); }
};
struct Softplus {
  template <class T>
  T operator()(T x) const { return scalar::softplus(x); }
};
struct Silu {
  template <class T>
  T operator()(T x) const { return x * scalar::sigmoid(x); }
};
struct Selu {
  template <class T>
  T operator()(T x) const {
    return T(scalar::kSeluScale) * scalar::elu(x, T(scalar::kSeluAlpha));
  }
};

struct ReluBackward {
  template <class T>
  T operator()(T grad, T y) const { return y > 0 ? grad : T{0}; }
};
struct SigmoidBackward {
  template <class T>
  T operator()(T grad, T y) const { return grad * y * (1 - y); }
};
struct TanhBackward {
  template <class T>
  T operator()(T grad, T y) const { return grad * (1 - y * y); }
};

void run_leaky_relu(const KernelCall& call) {
  visit_float(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T slope = static_cast<T>(call.attrs.as<SlopeAttrs>().slope);
    map_unary<T, T>(call, [=](T x) { return x > 0 ? x : slope * x; });
  });
}

void run_elu(const KernelCall& call) {
  visit_float(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T alpha = static_cast<T>(call.attrs.as<EluAttrs>().alpha);
    map_unary<T, T>(call, [=](T x) { return scalar::elu(x, alpha); });
  });
}

void run_gelu(const KernelCall& call) {
  const bool approximate = call.attrs.as<GeluAttrs>().approximate;
  visit_float(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_unary<T, T>(call, [=](T x) { return scalar::gelu(x, approximate); });
  });
}

void run_gelu_backward(const KernelCall& call) {
  const bool approximate = call.attrs.as<GeluAttrs>().approximate;
  visit_float(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_binary<T, T>(call, [=](T g, T x) { return g * scalar::gelu_slope(x, approximate); });
  });
}

void run_hard_sigmoid(const KernelCall& call) {
  const auto& attrs = call.attrs.as<HardSigmoidAttrs>();
  visit_float(call.inputs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T alpha = static_cast<T>(attrs.alpha);
    const T beta = static_cast<T>(attrs.beta);
    map_unary<T, T>(call, [=](T x) {
      const T y = alpha * x + beta;
      return y < 0 ? T{0} : y > 1 ? T{1} : y;
    });
  });
}

constexpr DTypeSet kWide{DType::float32, DType::float64};

constexpr KernelCandidate loop(DirectKernel run, DTypeSet dtypes) {
  return {.name = "loop", .dtypes = dtypes, .direct = run, .strided_inputs = true};
}

template <class F>
constexpr KernelCandidate kFloats[] = {loop(run_floats<F>, kWide)};
template <class F>
constexpr KernelCandidate kNumbers[] = {loop(run_floats<F>, kWide),
                                        loop(run_integers<F>, kIntTypes)};
template <DirectKernel run>
constexpr KernelCandidate kRun[] = {loop(run, kWide)};

struct Row {
  std::string_view op;
  std::span<const KernelCandidate> kernels;
};

constexpr Row kRows[] = {
    {"negative", kNumbers<scalar::Negative>},
    {"square", kNumbers<scalar::Square>},
    {"abs", kNumbers<scalar::Abs>},
    {"sign", kNumbers<scalar::Sign>},
    {"floor", kNumbers<scalar::Floor>},
    {"ceil", kNumbers<scalar::Ceil>},
    {"round", kNumbers<scalar::Round>},
    {"relu", kNumbers<scalar::Relu>},
    {"exp", kFloats<Exp>},
    {"expm1", kFloats<Expm1>},
    {"log", kFloats<Log>},
    {"log1p", kFloats<Log1p>},
    {"sqrt", kFloats<Sqrt>},
    {"rsqrt", kFloats<Rsqrt>},
    {"reciprocal", kFloats<Reciprocal>},
    {"erf", kFloats<Erf>},
    {"sin", kFloats<Sin>},
    {"cos", kFloats<Cos>},
    {"tanh", kFloats<Tanh>},
    {"sigmoid", kFloats<Sigmoid>},
    {"softplus", kFloats<Softplus>},
    {"silu", kFloats<Silu>},
    {"selu", kFloats<Selu>},
    {"leaky_relu", kRun<run_leaky_relu>},
    {"elu", kRun<run_elu>},
    {"gelu", kRun<run_gelu>},
    {"hard_sigmoid", kRun<run_hard_sigmoid>},
    {"relu_backward", kRun<run_backward<ReluBackward>>},
    {"sigmoid_backward", kRun<run_backward<SigmoidBackward>>},
    {"tanh_backward", kRun<run_backward<TanhBackward>>},
    {"gelu_backward", kRun<run_gelu_backward>},
};

}  // namespace

std::span<const KernelCandidate> unary_kernels(std::string_view op) {
  for (const Row& row : kRows)
    if (row.op == op) return row.kernels;
  fail_check("no such unary kernel", std::source_location::current());
}

}  // namespace lockstep::kernels
