// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/random_ops.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/random_attrs.h"
#include "lockstep/ops/random_ops.h"

namespace lockstep {
namespace {

Infos infer_dropout(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  const TensorInfo& key = args.inputs[1];
  const double p = args.attrs.as<DropoutAttrs>().p;
  if (!is_floating(x.dtype))
    throw InvalidArgument("dropout: input is {}, expected a floating dtype", x.str());
  if (key.dtype != DType::int64 || !(key.shape == Shape{3}))
    throw InvalidArgument("dropout: key is {}, expected int64[3]", key.str());
  if (!(p >= 0.0 && p < 1.0)) throw InvalidArgument("dropout: p is {}, expected 0 <= p < 1", p);
  return {x};
}

const OpDef& dropout_op();

// The same draw decides again which elements pass, so that no mask is kept.
std::vector<Tensor> dropout_gradient(const GradientArgs& args) {
  return {apply_one(dropout_op(), {args.grad(), args.inputs[1]}, args.attrs), Tensor()};
}

constexpr ArgumentDoc kDropout[] = {{"x", "floating"},
                                    {"key", "int64 [3]: seed, step and shard of the draw"}};
constexpr ArgumentDoc kDropped[] = {{"y", "of x's shape"}};
constexpr OpDocs kDropoutDocs{
    "Zeroes elements with probability p and multiplies the others by 1 / (1 - p).", kDropout,
    kDropped};

const OpDef& dropout_op() {
  static const OpDef op{.name = "dropout",
                        .docs = kDropoutDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<DropoutAttrs>(),
                        .infer = infer_dropout,
                        .gradient = dropout_gradient,
                        .cpu = kernels::dropout_kernels()};
  return op;
}

}  // namespace

Tensor dropout(const Tensor& x, double p) {
  auto [key, use] = RandomScope::next("dropout");
  if (x.defined() && !(key.device() == x.device()) && !key.is_symbolic()) key = key.to(x.device());
  return apply_one(dropout_op(), {x, key}, Attrs::of(DropoutAttrs{p, use}));
}

namespace families {

Family dropout() { return {&dropout_op()}; }

}  // namespace families
}  // namespace lockstep
