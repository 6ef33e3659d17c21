// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/unary.h"

#include "lockstep/ops/cpu/loops.h"
#include "lockstep/ops/cpu/scalar_functions.h"
#include "lockstep/ops/cpu/tile_run.h"
#include "lockstep/ops/unary_attrs.h"

namespace lockstep::kernels {
namespace {

template <class F>
void run_float64(const KernelCall& call) {
  map_unary<double, double>(call, F{});
}

template <class F>
void run_integers(const KernelCall& call) {
  switch (call.inputs[0].dtype) {
    case DType::int8: return map_unary<std::int8_t, std::int8_t>(call, F{});
    case DType::uint8: return map_unary<std::uint8_t, std::uint8_t>(call, F{});
    case DType::int16: return map_unary<std::int16_t, std::int16_t>(call, F{});
    case DType::int32: return map_unary<std::int32_t, std::int32_t>(call, F{});
    default: return map_unary<std::int64_t, std::int64_t>(call, F{});
  }
}

template <class F>
void run_backward(const KernelCall& call) {
  map_binary<double, double>(call, F{});
}

struct Exp {
  template <class T>
  T operator()(T x) const {
    return std::exp(x);
  }
};
struct Expm1 {
  template <class T>
  T operator()(T x) const {
    return std::expm1(x);
  }
};
struct Log {
  template <class T>
  T operator()(T x) const {
    return std::log(x);
  }
};
struct Log1p {
  template <class T>
  T operator()(T x) const {
    return std::log1p(x);
  }
};
struct Sqrt {
  template <class T>
  T operator()(T x) const {
    return std::sqrt(x);
  }
};
struct Rsqrt {
  template <class T>
  T operator()(T x) const {
    return 1 / std::sqrt(x);
  }
};
struct Reciprocal {
  template <class T>
  T operator()(T x) const {
    return 1 / x;
  }
};
struct Erf {
  template <class T>
  T operator()(T x) const {
    return std::erf(x);
  }
};
struct Sin {
  template <class T>
  T operator()(T x) const {
    return std::sin(x);
  }
};
struct Cos {
  template <class T>
  T operator()(T x) const {
    return std::cos(x);
  }
};
struct Tanh {
  template <class T>
  T operator()(T x) const {
    return std::tanh(x);
  }
};
struct Sigmoid {
  template <class T>
  T operator()(T x) const {
    return scalar::sigmoid(x);
  }
};
struct Softplus {
  template <class T>
  T operator()(T x) const {
    return scalar::softplus(x);
  }
};
struct Silu {
  template <class T>
  T operator()(T x) const {
    return x * scalar::sigmoid(x);
  }
};
struct Selu {
  template <class T>
  T operator()(T x) const {
    return T(scalar::kSeluScale) * scalar::elu(x, T(scalar::kSeluAlpha));
  }
};

struct ReluBackward {
  template <class T>
  T operator()(T grad, T y) const {
    return y <= 0 ? T{0} : grad;
  }
};
struct SigmoidBackward {
  template <class T>
  T operator()(T grad, T y) const {
    return grad * y * (1 - y);
  }
};
struct TanhBackward {
  template <class T>
  T operator()(T grad, T y) const {
    return grad * (1 - y * y);
  }
};

void run_leaky_relu(const KernelCall& call) {
  const double slope = call.attrs.as<SlopeAttrs>().slope;
  map_unary<double, double>(call, [=](double x) { return x > 0 ? x : slope * x; });
}

void run_elu(const KernelCall& call) {
  const double alpha = call.attrs.as<EluAttrs>().alpha;
  map_unary<double, double>(call, [=](double x) { return scalar::elu(x, alpha); });
}

void run_gelu(const KernelCall& call) {
  const bool approximate = call.attrs.as<GeluAttrs>().approximate;
  map_unary<double, double>(call, [=](double x) { return scalar::gelu(x, approximate); });
}

void run_gelu_backward(const KernelCall& call) {
  const bool approximate = call.attrs.as<GeluAttrs>().approximate;
  map_binary<double, double>(
      call, [=](double g, double x) { return g * scalar::gelu_slope(x, approximate); });
}

void run_hard_sigmoid(const KernelCall& call) {
  const HardSigmoidAttrs attrs = call.attrs.as<HardSigmoidAttrs>();
  map_unary<double, double>(call, [=](double x) {
    const double y = attrs.alpha * x + attrs.beta;
    return y < 0 ? 0.0 : y > 1 ? 1.0 : y;
  });
}

constexpr DTypeSet kFloat64{DType::float64};

template <OpName op, class F>
constexpr KernelCandidate kFloats[] = {tile_kernel(run_tile_op<op>),
                                       loop_kernel(run_float64<F>, kFloat64)};
template <OpName op, class F>
constexpr KernelCandidate kNumbers[] = {tile_kernel(run_tile_op<op>),
                                        loop_kernel(run_float64<F>, kFloat64),
                                        loop_kernel(run_integers<F>, kIntTypes)};
template <OpName op, class F>
constexpr KernelCandidate kBackward[] = {tile_kernel(run_tile_op<op>),
                                         loop_kernel(run_backward<F>, kFloat64)};
template <OpName op, class A, DirectKernel run>
constexpr KernelCandidate kWith[] = {tile_kernel(run_tile_op_with<op, A>),
                                     loop_kernel(run, kFloat64)};

struct Row {
  std::string_view op;
  std::span<const KernelCandidate> kernels;
};

constexpr Row kRows[] = {
    {"negative", kNumbers<"negative", scalar::Negative>},
    {"square", kNumbers<"square", scalar::Square>},
    {"abs", kNumbers<"abs", scalar::Abs>},
    {"sign", kNumbers<"sign", scalar::Sign>},
    {"floor", kNumbers<"floor", scalar::Floor>},
    {"ceil", kNumbers<"ceil", scalar::Ceil>},
    {"round", kNumbers<"round", scalar::Round>},
    {"relu", kNumbers<"relu", scalar::Relu>},
    {"exp", kFloats<"exp", Exp>},
    {"expm1", kFloats<"expm1", Expm1>},
    {"log", kFloats<"log", Log>},
    {"log1p", kFloats<"log1p", Log1p>},
    {"sqrt", kFloats<"sqrt", Sqrt>},
    {"rsqrt", kFloats<"rsqrt", Rsqrt>},
    {"reciprocal", kFloats<"reciprocal", Reciprocal>},
    {"erf", kFloats<"erf", Erf>},
    {"sin", kFloats<"sin", Sin>},
    {"cos", kFloats<"cos", Cos>},
    {"tanh", kFloats<"tanh", Tanh>},
    {"sigmoid", kFloats<"sigmoid", Sigmoid>},
    {"softplus", kFloats<"softplus", Softplus>},
    {"silu", kFloats<"silu", Silu>},
    {"selu", kFloats<"selu", Selu>},
    {"leaky_relu", kWith<"leaky_relu", SlopeAttrs, run_leaky_relu>},
    {"elu", kWith<"elu", EluAttrs, run_elu>},
    {"gelu", kWith<"gelu", GeluAttrs, run_gelu>},
    {"hard_sigmoid", kWith<"hard_sigmoid", HardSigmoidAttrs, run_hard_sigmoid>},
    {"relu_backward", kBackward<"relu_backward", ReluBackward>},
    {"sigmoid_backward", kBackward<"sigmoid_backward", SigmoidBackward>},
    {"tanh_backward", kBackward<"tanh_backward", TanhBackward>},
    {"gelu_backward", kWith<"gelu_backward", GeluAttrs, run_gelu_backward>},
};

}  // namespace

std::span<const KernelCandidate> unary_kernels(std::string_view op) {
  for (const Row& row : kRows)
    if (row.op == op) return row.kernels;
  fail_check("no such unary kernel");
}

}  // namespace lockstep::kernels
