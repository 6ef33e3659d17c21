// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/ctc.h"

#include "lockstep/ops/class_numbers.h"
#include "lockstep/ops/cpu/ctc.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/index_ops.h"
#include "lockstep/ops/loss_attrs.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/softmax.h"
#include "lockstep/ops/unary.h"

namespace lockstep {
namespace {

void check_problem(const InferArgs& args, std::size_t first) {
  const TensorInfo& logits = args.inputs[first];
  const TensorInfo& labels = args.inputs[first + 1];
  const TensorInfo& lengths = args.inputs[first + 2];
  if (!is_floating(logits.dtype) || logits.shape.rank() != 3 || logits.shape[2] == 0)
    throw InvalidArgument("{}: logits are {}, expected floats [T, N, C]", args.op, logits.str());
  const std::int64_t samples = logits.shape[1];
  if (labels.dtype != DType::int64 || labels.shape.rank() != 2 || labels.shape[0] != samples)
    throw InvalidArgument("{}: labels are {}, expected int64[{}, L]", args.op, labels.str(),
                          samples);
  if (lengths.dtype != DType::int64 || !(lengths.shape == Shape{samples}))
    throw InvalidArgument("{}: input lengths are {}, expected int64[{}]", args.op, lengths.str(),
                          samples);
  const std::int64_t blank = args.attrs.as<CtcAttrs>().blank;
  if (blank < 0 || blank >= logits.shape[2])
    throw InvalidArgument("{}: blank is {}, expected 0..{}", args.op, blank, logits.shape[2] - 1);
}

Infos infer_ctc(const InferArgs& args) {
  check_problem(args, 0);
  const TensorInfo& logits = args.inputs[0];
  return {{Shape{logits.shape[1]}, logits.dtype, logits.device}};
}

Infos infer_ctc_backward(const InferArgs& args) {
  check_problem(args, 1);
  const TensorInfo& grad = args.inputs[0];
  const TensorInfo& logits = args.inputs[1];
  if (!(grad.shape == Shape{logits.shape[1]}) || grad.dtype != logits.dtype)
    throw InvalidArgument("{}: gradient is {}, expected {}[{}]", args.op, grad.str(),
                          name_of(logits.dtype), logits.shape[1]);
  return {logits};
}

const OpDef& ctc_loss_backward_op();

std::vector<Tensor> ctc_gradient(const GradientArgs& args) {
  return {apply_one(ctc_loss_backward_op(),
                    {args.grad(), args.inputs[0], args.inputs[1], args.inputs[2]}, args.attrs),
          {},
          {}};
}

// The log-probability of what cannot be, far from infinity so that differences of two stay numbers.
constexpr double kNever = -1e30;

// The backward op in other ops, for gradients of gradients: cpu/ctc.cpp's tables, a tensor [N, S]
// for each step.
class Composition {
 public:
  Composition(const Tensor& logits, const Tensor& labels, const Tensor& lengths, std::int64_t blank)
      : logits_(logits), lengths_(lengths), steps_(logits.shape(0)) {
    fill_states(labels, blank);
    const Shape all{steps_, states_.shape(0), states_.shape(1)};
    index_ = expand(expand_dims(states_, 0), all);
    const Tensor emissions = gather(log_softmax(logits), index_, 2);
    for (std::int64_t t = 0; t < steps_; ++t)
      emissions_.push_back(squeeze(slice_axis(emissions, 0, t, t + 1), {0}));
    never_ = full({}, kNever, logits.dtype(), logits.device());
  }

  Tensor backward(const Tensor& grad) const {
    const std::vector<Tensor> alpha = alphas(), beta = betas();
    std::vector<Tensor> paths;
    for (std::size_t t = 0; t < alpha.size(); ++t)
      paths.push_back(alpha[t] + beta[t] - emissions_[t]);
    const Tensor total = logsumexp(paths[0], {1}, true);
    const Tensor counts = logical_and(greater(total, 0.5 * kNever), active());
    const Tensor posterior = exp(where(counts, stack(paths) - total, never_));
    const Tensor summed = scatter_add(zeros_like(logits_), index_, posterior, 2);
    return where(counts, (softmax(logits_) - summed) * expand_dims(grad, 1), zeros_like(logits_));
  }

 private:
  // states_, reachable_ and ends_ [N, S]: the labels with blanks around each, those within a
  // sample's own number, and the last two of them.
  void fill_states(const Tensor& labels, std::int64_t blank) {
    const std::int64_t samples = labels.shape(0), longest = labels.shape(1);
    const auto value = static_cast<double>(blank);
    const Tensor ended = cumsum(cast(less(labels, 0.0), DType::int64), 1);
    const Tensor real = equal(ended, 0.0);
    const Tensor blanks = full({samples, longest}, value, DType::int64, labels.device());
    const Tensor pairs = stack({blanks, where(real, labels, blanks)}, 2);
    const Tensor after = full({samples, 1}, value, DType::int64, labels.device());
    states_ = concat({reshape(pairs, {samples, 2 * longest}), after}, 1);
    const Tensor last = sum(cast(real, DType::int64), {1}, true) * 2.0;
    position_ = expand_dims(positions(2 * longest + 1), 0);
    reachable_ = less_equal(position_, last);
    ends_ = logical_and(reachable_, greater_equal(position_, last - 1.0));
    skips_ = logical_and(not_equal(states_, value), not_equal(states_, moved(states_, 2, value)));
  }

  Tensor positions(std::int64_t count) const {
    return arange(0, static_cast<double>(count), 1, DType::int64, logits_.device());
  }

  Tensor active() const {
    return expand_dims(less(expand_dims(positions(steps_), 1), expand_dims(lengths_, 0)), 2);
  }

  // Every state takes the value of the one `by` before it.
  static Tensor moved(const Tensor& x, std::int64_t by, double fill) {
    const std::int64_t size = x.shape(1);
    return by > 0 ? slice_axis(pad(x, {0, 0, by, 0}, fill), 1, 0, size)
                  : slice_axis(pad(x, {0, 0, 0, -by}, fill), 1, -by, size - by);
  }
  static Tensor log_sum(const Tensor& a, const Tensor& b, const Tensor& c) {
    return logsumexp(stack({a, b, c}), {0});
  }

  std::vector<Tensor> alphas() const {
    std::vector<Tensor> alpha;
    for (const Tensor& emission : emissions_) {
      if (alpha.empty()) {
        alpha.push_back(where(logical_and(reachable_, less(position_, 2.0)), emission, never_));
        continue;
      }
      const Tensor& before = alpha.back();
      const Tensor skipped = where(skips_, moved(before, 2, kNever), never_);
      alpha.push_back(log_sum(before, moved(before, 1, kNever), skipped) + emission);
    }
    return alpha;
  }

  std::vector<Tensor> betas() const {
    std::vector<Tensor> beta(emissions_.size());
    for (std::int64_t t = steps_ - 1; t >= 0; --t) {
      const auto at = static_cast<std::size_t>(t);
      const Tensor last = expand_dims(equal(lengths_, static_cast<double>(t + 1)), 1);
      Tensor left = full(states_.shape(), kNever, logits_.dtype(), logits_.device());
      if (t + 1 < steps_) {
        const Tensor& next = beta[at + 1];
        const Tensor skipped = moved(where(skips_, next, never_), -2, kNever);
        left = log_sum(next, moved(next, -1, kNever), skipped);
      }
      const Tensor stop = where(ends_, zeros_like(left), never_);
      beta[at] = where(last, stop, left) + emissions_[at];
    }
    return beta;
  }

  Tensor logits_, lengths_;
  std::int64_t steps_;
  Tensor states_, position_, reachable_, ends_, skips_, index_, never_;
  std::vector<Tensor> emissions_;
};

std::vector<Tensor> decompose_ctc_backward(std::span<const Tensor> inputs, const Attrs& attrs) {
  if (inputs[1].numel() == 0) return {zeros_like(inputs[1])};
  const Composition ctc(inputs[1], inputs[2], inputs[3], attrs.as<CtcAttrs>().blank);
  return {ctc.backward(inputs[0])};
}

constexpr ArgumentDoc kCtc[] = {{"logits", "floating, [T, N, C], before softmax"},
                                {"labels", "int64 [N, L]; a negative one ends its row"},
                                {"input_lengths", "int64 [N]: the steps that count"}};
constexpr ArgumentDoc kCtcOutput[] = {
    {"loss", "[N]; infinity where no alignment gives the labels"}};
constexpr ArgumentDoc kCtcGrad[] = {{"grad", "the loss's gradient"},
                                    {"logits", "floating, [T, N, C], before softmax"},
                                    {"labels", "int64 [N, L]; a negative one ends its row"},
                                    {"input_lengths", "int64 [N]: the steps that count"}};
constexpr ArgumentDoc kCtcGradOutput[] = {{"grad_logits", "of logits' shape"}};
constexpr OpDocs kCtcLossDocs{
    "-log of the probability, over all alignments, that the sequences say the labels.", kCtc,
    kCtcOutput};
constexpr OpDocs kCtcLossBackwardDocs{"ctc_loss's gradient.", kCtcGrad, kCtcGradOutput};

const OpDef& ctc_loss_op() {
  static const OpDef op{.name = "ctc_loss",
                        .docs = kCtcLossDocs,
                        .min_inputs = 3,
                        .max_inputs = 3,
                        .schema = attr_schema<CtcAttrs>(),
                        .promotion = Promotion::rest_int64,
                        .infer = infer_ctc,
                        .gradient = ctc_gradient,
                        .cpu = kernels::ctc_loss_kernels()};
  return op;
}

const OpDef& ctc_loss_backward_op() {
  static const OpDef op{.name = "ctc_loss_backward",
                        .docs = kCtcLossBackwardDocs,
                        .min_inputs = 4,
                        .max_inputs = 4,
                        .schema = attr_schema<CtcAttrs>(),
                        .infer = infer_ctc_backward,
                        .decompose = decompose_ctc_backward,
                        .cpu = kernels::ctc_loss_backward_kernels()};
  return op;
}

// Labels from a row's length on become negative.
Tensor cut(const Tensor& labels, const Tensor& lengths) {
  if (labels.rank() != 2 || !(lengths.shape() == Shape{labels.shape(0)}))
    throw InvalidArgument(
        "ctc_loss: labels have shape {} and label lengths {}, expected [N, L] "
        "and [N]",
        labels.shape().str(), lengths.shape().str());
  const auto longest = static_cast<double>(labels.shape(1));
  const Tensor position = arange(0, longest, 1, DType::int64, labels.device());
  const Tensor real = less(expand_dims(position, 0), expand_dims(cast(lengths, DType::int64), 1));
  return where(real, labels, full({}, -1.0, DType::int64, labels.device()));
}

}  // namespace

Tensor ctc_loss(const Tensor& logits, const Tensor& labels, std::int64_t blank,
                const Tensor& input_lengths, const Tensor& label_lengths) {
  detail::check_defined("ctc_loss", logits);
  detail::check_defined("ctc_loss", labels, 1);
  if (logits.rank() != 3)
    throw InvalidArgument("ctc_loss: logits have shape {}, expected [T, N, C]",
                          logits.shape().str());
  const Tensor whole = cast(detail::class_numbers(labels), DType::int64);
  const Tensor kept = label_lengths.defined() ? cut(whole, label_lengths) : whole;
  const Tensor steps = input_lengths.defined()
                           ? input_lengths
                           : full({logits.shape(1)}, static_cast<double>(logits.shape(0)),
                                  DType::int64, logits.device());
  return apply_one_promoted(ctc_loss_op(), {logits, kept, steps}, Attrs::of(CtcAttrs{blank}));
}

namespace families {

Family ctc() { return {&ctc_loss_op(), &ctc_loss_backward_op()}; }

}  // namespace families
}  // namespace lockstep
