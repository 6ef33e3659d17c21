// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/update.h"

#include <array>

#include "lockstep/ops/cpu/update.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/update_attrs.h"

namespace lockstep {
namespace {

Infos infer_sgd(const InferArgs& args) {
  const TensorInfo& weight = args.inputs[0];
  const TensorInfo& rate = args.inputs[3];
  if (!is_floating(weight.dtype))
    throw InvalidArgument("{}: the weight is {}, expected a floating dtype", args.op,
                          name_of(weight.dtype));
  if (!(args.inputs[1] == weight))
    throw InvalidArgument("{}: the gradient is {}, expected {}", args.op, args.inputs[1].str(),
                          weight.str());
  if (!(args.inputs[2] == weight))
    throw InvalidArgument("{}: the momentum buffer is {}, expected {}", args.op,
                          args.inputs[2].str(), weight.str());
  if (rate.shape.rank() != 0 || rate.dtype != weight.dtype)
    throw InvalidArgument("{}: the rate is {}, expected {}[]", args.op, rate.str(),
                          name_of(weight.dtype));
  return {weight, weight};
}

constexpr ArgumentDoc kSgd[] = {{"weight", "floating"},
                                {"grad", "the weight's gradient"},
                                {"momentum_buffer", "the last step, of weight's shape"},
                                {"rate", "the learning rate, 0-d, of weight's dtype"}};
constexpr ArgumentDoc kSgdOutputs[] = {{"weight", "the new weight"},
                                       {"momentum_buffer", "the step just taken"}};
constexpr OpDocs kSgdMomentumUpdateDocs{
    "A step of SGD: m = momentum * m - rate * (scale * grad + decay * weight); weight + m.", kSgd,
    kSgdOutputs};

const OpDef& sgd_momentum_update_op() {
  static const OpDef op{.name = "sgd_momentum_update",
                        .docs = kSgdMomentumUpdateDocs,
                        .min_inputs = 4,
                        .max_inputs = 4,
                        .kind = OpKind::elementwise,
                        .schema = attr_schema<SgdAttrs>(),
                        .infer = infer_sgd,
                        .zero_preserving = true,
                        .zero_with_singles = true,
                        .cpu = kernels::sgd_momentum_kernels()};
  return op;
}

}  // namespace

std::pair<Tensor, Tensor> sgd_momentum_update(const Tensor& weight, const Tensor& grad,
                                              const Tensor& momentum_buffer, const Tensor& rate,
                                              double momentum, double decay, double scale) {
  const std::array inputs{weight, grad, momentum_buffer, rate};
  const std::vector<Tensor> outputs =
      apply(sgd_momentum_update_op(), inputs, Attrs::of(SgdAttrs{momentum, decay, scale}));
  return {outputs[0], outputs[1]};
}

namespace families {

Family update() { return {&sgd_momentum_update_op()}; }

}  // namespace families
}  // namespace lockstep
