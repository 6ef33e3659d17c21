// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/random_ops.h"

#include <cmath>
#include <limits>

#include "lockstep/ops/cpu/random_ops.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/random_attrs.h"
#include "lockstep/ops/unary.h"
#include "lockstep/tensor/sizes.h"

namespace lockstep {
namespace {

thread_local RandomScope* innermost_scope = nullptr;

void check_key(const InferArgs& args, const TensorInfo& key) {
  if (key.dtype != DType::int64 || !(key.shape == Shape{3}))
    throw InvalidArgument("{}: key is {}, expected int64[3]", args.op, key.str());
}

Infos drawn(const InferArgs& args, const Ints& sizes, DType dtype) {
  check_key(args, args.inputs[0]);
  return {{detail::checked_shape(args.op, Shape(sizes)), dtype, args.inputs[0].device}};
}

void check_floating(const InferArgs& args, DType dtype) {
  if (!is_floating(dtype))
    throw InvalidArgument("{}: dtype is {}, expected a floating one", args.op, name_of(dtype));
}

Infos infer_uniform(const InferArgs& args) {
  const auto& attrs = args.attrs.as<UniformAttrs>();
  check_floating(args, attrs.dtype);
  if (!(attrs.low <= attrs.high) || !std::isfinite(attrs.high - attrs.low))
    throw InvalidArgument("uniform: low is {}, high is {}, expected low <= high", attrs.low,
                          attrs.high);
  return drawn(args, attrs.shape, attrs.dtype);
}

Infos infer_normal(const InferArgs& args) {
  const auto& attrs = args.attrs.as<NormalAttrs>();
  check_floating(args, attrs.dtype);
  if (!(attrs.stddev >= 0.0))
    throw InvalidArgument("normal: stddev is {}, expected 0 or more", attrs.stddev);
  return drawn(args, attrs.shape, attrs.dtype);
}

Infos infer_bernoulli(const InferArgs& args) {
  const auto& attrs = args.attrs.as<BernoulliAttrs>();
  if (!(attrs.p >= 0.0 && attrs.p <= 1.0))
    throw InvalidArgument("bernoulli: p is {}, expected 0 to 1", attrs.p);
  return drawn(args, attrs.shape, attrs.dtype);
}

bool fits(DType dtype, std::int64_t value) {
  return visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>)
      return value >= static_cast<std::int64_t>(std::numeric_limits<T>::lowest()) &&
             value <= static_cast<std::int64_t>(std::numeric_limits<T>::max());
    else
      return true;
  });
}

Infos infer_randint(const InferArgs& args) {
  const auto& attrs = args.attrs.as<RandintAttrs>();
  if (attrs.low >= attrs.high)
    throw InvalidArgument("randint: low is {}, high is {}, expected low < high", attrs.low,
                          attrs.high);
  if (!fits(attrs.dtype, attrs.low) || !fits(attrs.dtype, attrs.high - 1))
    throw InvalidArgument("randint: {}..{} does not fit {}", attrs.low, attrs.high - 1,
                          name_of(attrs.dtype));
  return drawn(args, attrs.shape, attrs.dtype);
}

Infos infer_permutation(const InferArgs& args) {
  const std::int64_t n = args.attrs.as<PermutationAttrs>().n;
  if (n < 0) throw InvalidArgument("permutation: n is {}, expected 0 or more", n);
  return drawn(args, {n}, DType::int64);
}

constexpr ArgumentDoc kKey[] = {{"key", "int64 [3]: seed, step and shard of the draw"}};
constexpr ArgumentDoc kDrawn[] = {{"y", "element i depends on key, use and i alone"}};
constexpr ArgumentDoc kOrder[] = {{"y", "int64 [n]"}};
constexpr OpDocs kUniformDocs{"Draws from low <= value < high, all equally likely.", kKey, kDrawn};
constexpr OpDocs kNormalDocs{"Draws from the normal distribution.", kKey, kDrawn};
constexpr OpDocs kBernoulliDocs{"Draws 1 with probability p, else 0.", kKey, kDrawn};
constexpr OpDocs kRandintDocs{"Draws integers from low to high - 1, all equally likely.", kKey,
                              kDrawn};
constexpr OpDocs kPermutationDocs{"The numbers 0 to n - 1 in random order.", kKey, kOrder};

const OpDef& uniform_op() {
  static const OpDef op{.name = "uniform",
                        .docs = kUniformDocs,
                        .schema = attr_schema<UniformAttrs>(),
                        .infer = infer_uniform,
                        .cpu = kernels::uniform_kernels()};
  return op;
}

const OpDef& normal_op() {
  static const OpDef op{.name = "normal",
                        .docs = kNormalDocs,
                        .schema = attr_schema<NormalAttrs>(),
                        .infer = infer_normal,
                        .cpu = kernels::normal_kernels()};
  return op;
}

const OpDef& bernoulli_op() {
  static const OpDef op{.name = "bernoulli",
                        .docs = kBernoulliDocs,
                        .schema = attr_schema<BernoulliAttrs>(),
                        .infer = infer_bernoulli,
                        .cpu = kernels::bernoulli_kernels()};
  return op;
}

const OpDef& randint_op() {
  static const OpDef op{.name = "randint",
                        .docs = kRandintDocs,
                        .schema = attr_schema<RandintAttrs>(),
                        .infer = infer_randint,
                        .cpu = kernels::randint_kernels()};
  return op;
}

const OpDef& permutation_op() {
  static const OpDef op{.name = "permutation",
                        .docs = kPermutationDocs,
                        .schema = attr_schema<PermutationAttrs>(),
                        .infer = infer_permutation,
                        .cpu = kernels::permutation_kernels()};
  return op;
}

Infos infer_categorical(const InferArgs& args) {
  const auto& attrs = args.attrs.as<CategoricalAttrs>();
  const TensorInfo& logits = args.inputs[0];
  check_floating(args, logits.dtype);
  check_key(args, args.inputs[1]);
  const int rank = logits.shape.rank();
  if (rank == 0 || logits.shape[rank - 1] == 0)
    throw InvalidArgument("{}: logits have shape {}, expected [..., classes]", args.op,
                          logits.shape.str());
  const std::int64_t classes = logits.shape[rank - 1];
  if (attrs.count < 0 || (!attrs.replacement && attrs.count > classes))
    throw InvalidArgument("{}: count is {}, of {} classes{}", args.op, attrs.count, classes,
                          attrs.replacement ? "" : " without replacement");
  Shape shape = logits.shape;
  shape[rank - 1] = attrs.count;
  return {{detail::checked_shape(args.op, shape), DType::int64, logits.device}};
}

constexpr ArgumentDoc kLogits[] = {
    {"logits", "floating, [..., classes]: logarithms of probabilities, up to a constant"},
    {"key", "int64 [3]: seed, step and shard of the draw"}};
constexpr ArgumentDoc kClasses[] = {{"y", "int64 [..., count]"}};
constexpr OpDocs kCategoricalDocs{"Class numbers, drawn with the probabilities softmax(logits).",
                                  kLogits, kClasses};

const OpDef& categorical_op() {
  static const OpDef op{.name = "categorical",
                        .docs = kCategoricalDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<CategoricalAttrs>(),
                        .infer = infer_categorical,
                        .cpu = kernels::categorical_kernels()};
  return op;
}

}  // namespace

Tensor random_key(std::uint64_t seed, std::uint32_t step, std::uint32_t shard) {
  const std::vector<std::int64_t> words{static_cast<std::int64_t>(seed), step, shard};
  return Tensor::from(words, {3});
}

RandomScope::RandomScope(Tensor key) : key_(std::move(key)), outer_(innermost_scope) {
  detail::check_defined("RandomScope", key_);
  innermost_scope = this;
}

RandomScope::~RandomScope() { innermost_scope = outer_; }

RandomScope::Draw RandomScope::next(const char* op) {
  if (innermost_scope == nullptr)
    throw InvalidArgument("{}: needs a RandomScope, which gives the draw its key", op);
  return {innermost_scope->key_, innermost_scope->uses_++};
}

Tensor uniform(const Shape& shape, double low, double high, DType dtype) {
  const auto [key, use] = RandomScope::next("uniform");
  return apply_one(uniform_op(), {key},
                   Attrs::of(UniformAttrs{shape.vector(), low, high, dtype, use}));
}

Tensor normal(const Shape& shape, double mean, double stddev, DType dtype) {
  const auto [key, use] = RandomScope::next("normal");
  return apply_one(normal_op(), {key},
                   Attrs::of(NormalAttrs{shape.vector(), mean, stddev, dtype, use}));
}

Tensor bernoulli(const Shape& shape, double p, DType dtype) {
  const auto [key, use] = RandomScope::next("bernoulli");
  return apply_one(bernoulli_op(), {key}, Attrs::of(BernoulliAttrs{shape.vector(), p, dtype, use}));
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype) {
  const auto [key, use] = RandomScope::next("randint");
  return apply_one(randint_op(), {key},
                   Attrs::of(RandintAttrs{shape.vector(), low, high, dtype, use}));
}

Tensor permutation(std::int64_t n) {
  const auto [key, use] = RandomScope::next("permutation");
  return apply_one(permutation_op(), {key}, Attrs::of(PermutationAttrs{n, use}));
}

Tensor categorical(const Tensor& logits, std::int64_t count, bool replacement) {
  auto [key, use] = RandomScope::next("categorical");
  if (logits.defined() && !(key.device() == logits.device()) && !key.is_symbolic())
    key = key.to(logits.device());
  return apply_one(categorical_op(), {logits, key},
                   Attrs::of(CategoricalAttrs{count, replacement, use}));
}

Tensor multinomial(const Tensor& probabilities, std::int64_t count, bool replacement) {
  return detail::named("multinomial",
                       [&] { return categorical(log(probabilities), count, replacement); });
}

namespace families {

Family random() {
  return {&uniform_op(), &normal_op(),      &bernoulli_op(),
          &randint_op(), &permutation_op(), &categorical_op()};
}

}  // namespace families
}  // namespace lockstep
