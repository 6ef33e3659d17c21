// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/attention.h"

#include <cmath>
#include <limits>

#include "lockstep/ops/attention_attrs.h"
#include "lockstep/ops/cpu/attention.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep {

double AttentionAttrs::scale_for(std::int64_t depth) const {
  return scale != 0.0 ? scale : 1.0 / std::sqrt(static_cast<double>(depth < 1 ? 1 : depth));
}

namespace {

const OpDef& attention_op();
const OpDef& attention_backward_op();

// Logarithms of row sums, relative to the row's largest score, stay float32 for the half types,
// whose 8 or 11 bits they would not survive: the backward pass exponentiates them.
DType statistics_dtype(DType dtype) {
  return dtype == DType::float64 ? DType::float64 : DType::float32;
}

void check_operand(const char* op, const char* name, const TensorInfo& q, const TensorInfo& x) {
  if (x.dtype != q.dtype)
    throw InvalidArgument("{}: {} is {}, q is {}", op, name, name_of(x.dtype), name_of(q.dtype));
  if (x.shape.rank() != 4)
    throw InvalidArgument("{}: {} has shape {}, expected [B, H, T, D]", op, name, x.shape.str());
  if (x.shape[0] != q.shape[0] || x.shape[1] != q.shape[1])
    throw InvalidArgument("{}: {} has shape {}, expected batch and heads of q {}", op, name,
                          x.shape.str(), q.shape.str());
}

void check_mask(const char* op, const TensorInfo& q, const TensorInfo& k, const TensorInfo& mask) {
  if (mask.dtype != DType::boolean && mask.dtype != q.dtype)
    throw InvalidArgument("{}: mask is {}, expected bool or {}", op, name_of(mask.dtype),
                          name_of(q.dtype));
  const Shape scores{q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
  bool fits = mask.shape.rank() <= 4;
  for (int i = 1; fits && i <= mask.shape.rank(); ++i) {
    const std::int64_t size = mask.shape[mask.shape.rank() - i];
    fits = size == 1 || size == scores[4 - i];
  }
  if (!fits)
    throw InvalidArgument("{}: mask has shape {}, which does not broadcast to {}", op,
                          mask.shape.str(), scores.str());
}

void check_inputs(const char* op, const TensorInfo& q, const TensorInfo& k, const TensorInfo& v) {
  if (!is_floating(q.dtype))
    throw InvalidArgument("{}: q is {}, expected a floating dtype", op, name_of(q.dtype));
  check_operand(op, "q", q, q);
  check_operand(op, "k", q, k);
  check_operand(op, "v", q, v);
  if (k.shape[3] != q.shape[3])
    throw InvalidArgument("{}: k has shape {}, q has depth {}", op, k.shape.str(), q.shape[3]);
  if (v.shape[2] != k.shape[2])
    throw InvalidArgument("{}: v has shape {}, k has length {}", op, v.shape.str(), k.shape[2]);
}

// What the ops give, and the gradient and y that the backward op takes, are [B, T, H, D]: heads are
// joined with no copy then, and q, k and v have usually come from such a tensor.
Shape heads_last(const Shape& shape) { return {shape[0], shape[2], shape[1], shape[3]}; }
Tensor swap_heads(const Tensor& x) { return transpose(x, {0, 2, 1, 3}); }

std::vector<Tensor> swap_heads(std::vector<Tensor> tensors) {
  for (Tensor& x : tensors) x = swap_heads(x);
  return tensors;
}

Infos infer_attention(const InferArgs& args) {
  const TensorInfo& q = args.inputs[0];
  const TensorInfo& v = args.inputs[2];
  check_inputs(args.op, q, args.inputs[1], v);
  if (args.inputs.size() > 3) check_mask(args.op, q, args.inputs[1], args.inputs[3]);
  const Shape rows{q.shape[0], q.shape[1], q.shape[2]};
  const Shape y{q.shape[0], q.shape[2], q.shape[1], v.shape[3]};
  return {{y, q.dtype, q.device}, {rows, statistics_dtype(q.dtype), q.device}};
}

void check_same(const char* op, const char* name, const TensorInfo& got,
                const TensorInfo& expected) {
  if (got.shape == expected.shape && got.dtype == expected.dtype) return;
  throw InvalidArgument("{}: {} is {}, expected {}", op, name, got.str(), expected.str());
}

bool one_shape(const Infos& infos) {
  return infos[0].shape == infos[1].shape && infos[0].shape == infos[2].shape;
}

// Inputs: dy, q, k, v, y, log_sum[, mask]. Outputs: dq, dk, dv; when they are of one shape, one
// tensor [B, T, 3, H, D], which is what a projection to all three needs.
Infos infer_attention_backward(const InferArgs& args) {
  Infos forward(args.inputs.begin() + 1, args.inputs.begin() + 4);
  if (args.inputs.size() > 6) forward.push_back(args.inputs[6]);
  const Infos outputs = infer_attention({args.op, forward, args.attrs});
  check_same(args.op, "dy", args.inputs[0], outputs[0]);
  check_same(args.op, "y", args.inputs[4], outputs[0]);
  check_same(args.op, "log_sum", args.inputs[5], outputs[1]);
  forward.resize(3);
  for (TensorInfo& info : forward) info.shape = heads_last(info.shape);
  if (!one_shape(forward)) return {forward[0], forward[1], forward[2]};
  forward[0].shape.insert(2, 3);
  return {forward[0]};
}

// The gradients of q, k and v, as those are, from what the backward op gives.
std::vector<Tensor> three_gradients(std::vector<Tensor> made) {
  if (made.size() == 3) return swap_heads(std::move(made));
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < 3; ++i)
    parts.push_back(swap_heads(squeeze(slice_axis(made[0], 2, i, i + 1), {2})));
  return parts;
}

constexpr double kNever = -std::numeric_limits<double>::infinity();

// The composition's scores, and which of them count (undefined: all).
struct Scores {
  Tensor values;
  Tensor allowed;
};

// [T, S], true where row i sees column j: j <= i + S - T.
Tensor causal_mask(std::int64_t rows, std::int64_t columns, Device device) {
  std::vector<bool> sees(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      sees[static_cast<std::size_t>(i * columns + j)] = j <= i + columns - rows;
  return Tensor::from(sees, Shape{rows, columns}, device);
}

Scores masked_scores(const Tensor& q, const Tensor& k, const Tensor& mask,
                     const AttentionAttrs& attrs) {
  Scores scores{matmul(q, k, false, true) * attrs.scale_for(q.shape(3)), {}};
  if (mask.defined() && mask.dtype() == DType::boolean) scores.allowed = mask;
  if (mask.defined() && mask.dtype() != DType::boolean) {
    scores.values = scores.values + mask;
    scores.allowed = greater(mask, kNever);
  }
  if (attrs.causal) {
    const Tensor causal = causal_mask(q.shape(2), k.shape(2), q.device());
    scores.allowed = scores.allowed ? logical_and(scores.allowed, causal) : causal;
  }
  return scores;
}

// Scores, with -inf where they do not count.
Tensor bounded(const Scores& scores) {
  const Tensor& values = scores.values;
  if (!scores.allowed) return values;
  return where(scores.allowed, values, Tensor::scalar(kNever, values.dtype(), values.device()));
}

// The largest score of each row; 0 where none counts. One that counts may be -inf itself: then the
// row has no softmax, and gives NaN as softmax does.
Tensor largest(const Scores& scores) {
  if (scores.values.shape(3) == 0) return sum(scores.values, {3}, true);
  const Tensor most = max(bounded(scores), {3}, true);
  if (!scores.allowed) return most;
  const int rank = scores.allowed.rank();
  const Tensor sees = rank == 0 ? scores.allowed : any(scores.allowed, {rank - 1}, true);
  return where(sees, most, Tensor::scalar(0.0, most.dtype(), most.device()));
}

// exp(scores - largest - log_sum) where allowed, else 0. What is not allowed is replaced before
// exp, so that neither it nor its gradient can overflow.
Tensor exp_allowed(const Scores& scores, const Tensor& log_sum) {
  const Tensor shifted = scores.values - largest(scores) - log_sum;
  if (!scores.allowed) return exp(shifted);
  const Tensor none = Tensor::scalar(0.0, shifted.dtype(), shifted.device());
  return where(scores.allowed, exp(where(scores.allowed, shifted, none)), none);
}

// The gradient of the scores where `rows` is that of the largest of each row: equals share it.
Tensor through_largest(const Tensor& rows, const Scores& scores) {
  const Tensor hit = cast(equal(bounded(scores), largest(scores)), rows.dtype());
  return hit * (rows / maximum(sum(hit, {3}, true), 1.0));
}

std::vector<Tensor> decompose_attention(std::span<const Tensor> inputs, const Attrs& attrs) {
  const Tensor& q = inputs[0];
  const Tensor mask = inputs.size() > 3 ? inputs[3] : Tensor();
  const Scores scores = masked_scores(q, inputs[1], mask, attrs.as<AttentionAttrs>());
  const Tensor log_sum = logsumexp(bounded(scores) - largest(scores), {3}, true);
  const Tensor y = matmul(exp_allowed(scores, log_sum), inputs[2]);
  return {swap_heads(y), cast(squeeze(log_sum, {3}), statistics_dtype(q.dtype()))};
}

struct BackwardParts {
  Tensor p;   // [B, H, T, S]
  Tensor ds;  // gradient of the scores, mask added, scale applied
};

// dy and y are [B, H, T, D]. `dlog_sum`, the gradient of the row sums, is undefined when nothing
// depends on them.
BackwardParts backward_parts(const Tensor& dy, std::span<const Tensor> qkv, const Tensor& y,
                             const Tensor& log_sum, const Tensor& dlog_sum, const Tensor& mask,
                             const AttentionAttrs& attrs) {
  const Scores scores = masked_scores(qkv[0], qkv[1], mask, attrs);
  const Tensor p = exp_allowed(scores, expand_dims(cast(log_sum, dy.dtype()), 3));
  const Tensor row = sum(dy * y, {3}, true) * -1.0;
  const Tensor dp = matmul(dy, qkv[2], false, true);
  if (!dlog_sum) return {p, p * (dp + row)};
  const Tensor extra = expand_dims(cast(dlog_sum, dy.dtype()), 3);
  return {p, p * (dp + row + extra) - through_largest(extra, scores)};
}

std::vector<Tensor> finish_backward(const BackwardParts& parts, const Tensor& dy,
                                    std::span<const Tensor> qkv, const AttentionAttrs& attrs) {
  const Tensor ds = parts.ds * attrs.scale_for(qkv[0].shape(3));
  return {matmul(ds, qkv[1]), matmul(ds, qkv[0], true), matmul(parts.p, dy, true)};
}

std::vector<Tensor> decompose_attention_backward(std::span<const Tensor> inputs,
                                                 const Attrs& attrs) {
  const auto& options = attrs.as<AttentionAttrs>();
  const Tensor mask = inputs.size() > 6 ? inputs[6] : Tensor();
  const auto qkv = inputs.subspan(1, 3);
  const Tensor dy = swap_heads(inputs[0]);
  const BackwardParts parts =
      backward_parts(dy, qkv, swap_heads(inputs[4]), inputs[5], {}, mask, options);
  std::vector<Tensor> grads = swap_heads(finish_backward(parts, dy, qkv, options));
  if (!one_shape({grads[0].info(), grads[1].info(), grads[2].info()})) return grads;
  return {stack(grads, 2)};
}

// One op where it can; a composition where the row sums or a float mask want a gradient.
std::vector<Tensor> attention_gradient(const GradientArgs& args) {
  const auto& options = args.attrs.as<AttentionAttrs>();
  const Tensor& y = args.outputs[0];
  const Tensor& log_sum = args.outputs[1];
  const Tensor dy = args.output_grads[0] ? args.output_grads[0] : zeros_like(y);
  const Tensor& dlog_sum = args.output_grads[1];
  const auto qkv = args.inputs.first(3);
  const bool masked = args.inputs.size() > 3;
  const Tensor mask = masked ? args.inputs[3] : Tensor();
  const bool mask_grad = masked && is_floating(mask.dtype()) && args.needs_grad(3);
  std::vector<Tensor> grads;
  if (!dlog_sum && !mask_grad) {
    std::vector<Tensor> inputs{dy, qkv[0], qkv[1], qkv[2], y, log_sum};
    if (masked) inputs.push_back(mask);
    grads = three_gradients(apply(attention_backward_op(), inputs, args.attrs));
  } else {
    const Tensor rows = swap_heads(dy);
    const BackwardParts parts =
        backward_parts(rows, qkv, swap_heads(y), log_sum, dlog_sum, mask, options);
    grads = finish_backward(parts, rows, qkv, options);
    if (mask_grad) grads.push_back(sum_to(parts.ds, mask.shape()));
  }
  grads.resize(args.inputs.size());
  return grads;
}

constexpr ArgumentDoc kAttention[] = {
    {"q", "floating, [B, H, T, D]: queries"},
    {"k", "[B, H, S, D]: keys"},
    {"v", "[B, H, S, E]: values"},
    {"mask", "bool (false: never look there) or added to the scores; broadcasts to [B, H, T, S]",
     Presence::optional}};
constexpr ArgumentDoc kAttentionOutputs[] = {
    {"y", "[B, T, H, E]: heads beside each other"},
    {"log_sum", "[B, H, T]: log(sum(exp(scores - max))), for the backward pass"}};
constexpr ArgumentDoc kAttentionGrad[] = {
    {"grad", "y's gradient"},
    {"q", "floating, [B, H, T, D]: queries"},
    {"k", "[B, H, S, D]: keys"},
    {"v", "[B, H, S, E]: values"},
    {"y", "attention's first output"},
    {"log_sum", "attention's second output"},
    {"mask", "bool (false: never look there) or added to the scores; broadcasts to [B, H, T, S]",
     Presence::optional}};
constexpr ArgumentDoc kAttentionGradOutputs[] = {
    {"grad_q", "[B, T, H, D]; of one shape with the others, all three: [B, T, 3, H, D]"},
    {"grad_k", "[B, S, H, D]", Presence::optional},
    {"grad_v", "[B, S, H, E]", Presence::optional}};
constexpr OpDocs kAttentionDocs{
    "softmax(q k^T * scale + mask) v: for each query a mean of values, weighted by its keys.",
    kAttention, kAttentionOutputs};
constexpr OpDocs kAttentionBackwardDocs{"attention's gradients.", kAttentionGrad,
                                        kAttentionGradOutputs};

const OpDef& attention_op() {
  static const OpDef op{.name = "attention",
                        .docs = kAttentionDocs,
                        .min_inputs = 3,
                        .max_inputs = 4,
                        .schema = attr_schema<AttentionAttrs>(),
                        .infer = infer_attention,
                        .gradient = attention_gradient,
                        .decompose = decompose_attention,
                        .cpu = kernels::attention_kernels()};
  return op;
}

const OpDef& attention_backward_op() {
  static const OpDef op{.name = "attention_backward",
                        .docs = kAttentionBackwardDocs,
                        .min_inputs = 6,
                        .max_inputs = 7,
                        .schema = attr_schema<AttentionAttrs>(),
                        .infer = infer_attention_backward,
                        .decompose = decompose_attention_backward,
                        .cpu = kernels::attention_backward_kernels()};
  return op;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask, bool causal, double scale) {
  const Attrs attrs = Attrs::of(AttentionAttrs{causal, scale});
  return detail::named("scaled_dot_product_attention", [&] {
    if (mask.defined()) return swap_heads(apply_one(attention_op(), {q, k, v, mask}, attrs));
    return swap_heads(apply_one(attention_op(), {q, k, v}, attrs));
  });
}

namespace families {

Family attention() { return {&attention_op(), &attention_backward_op()}; }

}  // namespace families
}  // namespace lockstep
