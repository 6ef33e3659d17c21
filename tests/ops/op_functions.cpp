// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/op_functions.h"

#include "lockstep/ops/elementwise_attrs.h"
#include "lockstep/ops/index_attrs.h"
#include "lockstep/ops/linalg_attrs.h"
#include "lockstep/ops/loss_attrs.h"
#include "lockstep/ops/ops.h"
#include "lockstep/ops/reduce_attrs.h"
#include "lockstep/ops/shape_attrs.h"
#include "lockstep/ops/softmax_attrs.h"
#include "lockstep/ops/unary_attrs.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;
using Functions = std::map<std::string, OpFunction>;

OpFunction of(Tensor (*f)(const Tensor&)) {
  return [f](const Tensors& in, const Attrs&) { return Tensors{f(in[0])}; };
}

OpFunction of(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [f](const Tensors& in, const Attrs&) { return Tensors{f(in[0], in[1])}; };
}

// f(inputs, attributes) with one tensor for its result.
template <class A, class F>
OpFunction with(F f) {
  return [f](const Tensors& in, const Attrs& attrs) { return Tensors{f(in, attrs.as<A>())}; };
}

void add_elementwise(Functions& all) {
  all["add"] = of(add);
  all["subtract"] = of(subtract);
  all["multiply"] = of(multiply);
  all["divide"] = of(divide);
  all["floor_divide"] = of(floor_divide);
  all["remainder"] = of(remainder);
  all["power"] = of(power);
  all["maximum"] = of(maximum);
  all["minimum"] = of(minimum);
  all["equal"] = of(equal);
  all["not_equal"] = of(not_equal);
  all["less"] = of(less);
  all["less_equal"] = of(less_equal);
  all["greater"] = of(greater);
  all["greater_equal"] = of(greater_equal);
  all["logical_and"] = of(logical_and);
  all["logical_or"] = of(logical_or);
  all["logical_xor"] = of(logical_xor);
  all["logical_not"] = of(logical_not);
  all["where"] = [](const Tensors& in, const Attrs&) {
    return Tensors{where(in[0], in[1], in[2])};
  };
  all["clip"] =
      with<ClipAttrs>([](const Tensors& in, auto& a) { return clip(in[0], a.low, a.high); });
}

void add_unary(Functions& all) {
  using Function = Tensor (*)(const Tensor&);
  const std::pair<const char*, Function> plain[] = {
      {"negative", negative}, {"exp", exp},           {"expm1", expm1},
      {"log", log},           {"log1p", log1p},       {"sqrt", sqrt},
      {"rsqrt", rsqrt},       {"square", square},     {"reciprocal", reciprocal},
      {"abs", abs},           {"sign", sign},         {"floor", floor},
      {"ceil", ceil},         {"round", round},       {"erf", erf},
      {"sin", sin},           {"cos", cos},           {"tanh", tanh},
      {"sigmoid", sigmoid},   {"softplus", softplus}, {"relu", relu},
      {"selu", selu},         {"silu", silu}};
  for (const auto& [name, function] : plain) all[name] = of(function);
  all["leaky_relu"] =
      with<SlopeAttrs>([](auto& in, auto& a) { return leaky_relu(in[0], a.slope); });
  all["elu"] = with<EluAttrs>([](auto& in, auto& a) { return elu(in[0], a.alpha); });
  all["gelu"] = with<GeluAttrs>([](auto& in, auto& a) { return gelu(in[0], a.approximate); });
  all["hard_sigmoid"] = with<HardSigmoidAttrs>(
      [](auto& in, auto& a) { return hard_sigmoid(in[0], a.alpha, a.beta); });
  all["relu_backward"] = of(relu_backward);
  all["sigmoid_backward"] = of(sigmoid_backward);
  all["tanh_backward"] = of(tanh_backward);
}

void add_math(Functions& all) {
  using Function = Tensor (*)(const Tensor&);
  using PairFunction = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Function> plain[] = {
      {"exp2", exp2},        {"log2", log2},   {"log10", log10}, {"tan", tan},
      {"asin", asin},        {"acos", acos},   {"atan", atan},   {"sinh", sinh},
      {"cosh", cosh},        {"asinh", asinh}, {"acosh", acosh}, {"atanh", atanh},
      {"erfinv", erfinv},    {"trunc", trunc}, {"isnan", isnan}, {"isinf", isinf},
      {"isfinite", isfinite}};
  for (const auto& [name, function] : plain) all[name] = of(function);
  const std::pair<const char*, PairFunction> pairs[] = {
      {"atan2", atan2}, {"fmod", fmod}, {"hypot", hypot}, {"logaddexp", logaddexp}};
  for (const auto& [name, function] : pairs) all[name] = of(function);
}

OpFunction reduction(Tensor (*f)(const Tensor&, const Ints&, bool)) {
  return with<ReduceAttrs>([f](auto& in, auto& a) { return f(in[0], a.axes, a.keepdims); });
}

void add_reductions(Functions& all) {
  all["sum"] = reduction(sum);
  all["mean"] = reduction(mean);
  all["prod"] = reduction(prod);
  all["max"] = reduction(max);
  all["min"] = reduction(min);
  all["logsumexp"] = reduction(logsumexp);
  all["var"] =
      with<VarAttrs>([](auto& in, auto& a) { return var(in[0], a.axes, a.keepdims, a.ddof); });
  all["stddev"] =
      with<VarAttrs>([](auto& in, auto& a) { return stddev(in[0], a.axes, a.keepdims, a.ddof); });
  all["any"] = reduction(any);
  all["all"] = reduction(lockstep::all);
  all["linear_scan"] = with<ScanAttrs>(
      [](auto& in, auto& a) { return linear_scan(in[0], in[1], a.axis, a.reverse); });
  all["norm"] =
      with<NormAttrs>([](auto& in, auto& a) { return norm(in[0], a.ord, a.axes, a.keepdims); });
  all["argmax"] =
      with<ArgAttrs>([](auto& in, auto& a) { return argmax(in[0], a.axis, a.keepdims); });
  all["argmin"] =
      with<ArgAttrs>([](auto& in, auto& a) { return argmin(in[0], a.axis, a.keepdims); });
  all["cumsum"] =
      with<CumsumAttrs>([](auto& in, auto& a) { return cumsum(in[0], a.axis, a.reverse); });
}

void add_linalg(Functions& all) {
  all["cholesky"] = of(cholesky);
  all["inverse"] = of(inverse);
  all["det"] = of(det);
  all["cofactors"] = of(cofactors);
  all["solve"] = of(solve);
  all["solve_triangular"] = with<TriangularAttrs>(
      [](auto& in, auto& a) { return solve_triangular(in[0], in[1], a.upper, a.transpose); });
  all["slogdet"] = [](const Tensors& in, const Attrs&) {
    const auto [sign, logabs] = slogdet(in[0]);
    return Tensors{sign, logabs};
  };
  all["svd"] = [](const Tensors& in, const Attrs&) {
    const auto [u, s, vh] = svd(in[0]);
    return Tensors{u, s, vh};
  };
  all["qr"] = [](const Tensors& in, const Attrs&) {
    const auto [q, r] = qr(in[0]);
    return Tensors{q, r};
  };
  all["eigh"] = [](const Tensors& in, const Attrs&) {
    const auto [values, vectors] = eigh(in[0]);
    return Tensors{values, vectors};
  };
}

void add_layers(Functions& all) {
  all["matmul"] = with<MatmulAttrs>(
      [](auto& in, auto& a) { return matmul(in[0], in[1], a.transpose_a, a.transpose_b); });
  all["softmax"] = with<SoftmaxAttrs>([](auto& in, auto& a) { return softmax(in[0], a.axis); });
  all["log_softmax"] =
      with<SoftmaxAttrs>([](auto& in, auto& a) { return log_softmax(in[0], a.axis); });
  all["softmax_cross_entropy"] = with<CrossEntropyAttrs>(
      [](auto& in, auto& a) { return softmax_cross_entropy(in[0], in[1], a.smoothing); });
  all["sigmoid_cross_entropy"] = of(sigmoid_cross_entropy);
  all["ctc_loss"] =
      with<CtcAttrs>([](auto& in, auto& a) { return ctc_loss(in[0], in[1], a.blank, in[2]); });
  all["batch_norm_inference"] = with<EpsilonAttrs>([](auto& in, auto& a) {
    return batch_norm_inference(in[0], in[1], in[2], in[3], in[4], a.epsilon);
  });
  all["layer_norm"] = with<EpsilonAttrs>(
      [](auto& in, auto& a) { return layer_norm(in[0], in[1], in[2], a.epsilon); });
}

void add_movement(Functions& all) {
  all["embedding"] = of(embedding);
  all["take"] = with<AlongAxisAttrs>([](auto& in, auto& a) { return take(in[0], in[1], a.axis); });
  all["gather"] =
      with<AlongAxisAttrs>([](auto& in, auto& a) { return gather(in[0], in[1], a.axis); });
  all["pick"] = with<AlongAxisAttrs>([](auto& in, auto& a) { return pick(in[0], in[1], a.axis); });
  all["scatter_add"] = with<AlongAxisAttrs>(
      [](auto& in, auto& a) { return scatter_add(in[0], in[1], in[2], a.axis); });
  all["one_hot"] =
      with<OneHotAttrs>([](auto& in, auto& a) { return one_hot(in[0], a.depth, a.dtype); });
  all["reshape"] = with<ReshapeAttrs>([](auto& in, auto& a) { return reshape(in[0], a.shape); });
  all["transpose"] =
      with<TransposeAttrs>([](auto& in, auto& a) { return transpose(in[0], a.axes); });
  all["concat"] = with<ConcatAttrs>([](auto& in, auto& a) { return concat(in, a.axis); });
  all["sort"] =
      with<SortAttrs>([](auto& in, auto& a) { return sort(in[0], a.axis, a.descending); });
}

Functions make_functions() {
  Functions all;
  add_elementwise(all);
  add_unary(all);
  add_math(all);
  add_reductions(all);
  add_linalg(all);
  add_layers(all);
  add_movement(all);
  return all;
}

}  // namespace

const std::map<std::string, OpFunction>& op_functions() {
  static const Functions all = make_functions();
  return all;
}

}  // namespace lockstep::testing
