// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/attention.h"

#include <cmath>
#include <vector>

#include "lockstep/ops/cpu/attention_problem.h"
#include "lockstep/ops/cpu/attention_reference.h"
#include "lockstep/ops/cpu/attention_rows.h"
#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/cpu/sgemm.h"

// float32 attention, one (batch, head) pair at a time: blocks of rows small enough that their
// scores stay in the second-level cache, each a matrix product, a softmax and a matrix product.
// The backward pass computes the scores again instead of keeping [B, H, T, S] probabilities
// (Dao et al., FlashAttention, 2022). A causal block stops at the last column that it sees.
namespace lockstep::kernels {
namespace {

// Scratch that grows to the largest call of this thread and stays.
class Scratch {
 public:
  explicit Scratch(std::int64_t floats) {
    if (static_cast<std::int64_t>(memory().size()) < floats)
      memory().resize(static_cast<std::size_t>(floats));
    next_ = memory().data();
  }
  float* take(std::int64_t floats) {
    float* taken = next_;
    next_ += floats;
    return taken;
  }

 private:
  static std::vector<float>& memory() {
    thread_local std::vector<float> floats;
    return floats;
  }
  float* next_;
};

bool has_dense_rows(const TensorView& x) {
  return (x.strides[3] == 1 || x.shape[3] == 1) && x.strides[2] >= x.shape[3];
}

// An operand of [B, H, T, D] of which one [T, D] is used at a time; it is copied when its rows are
// not dense.
class Operand {
 public:
  Operand(const TensorView& view, Scratch& scratch)
      : view_(view), copy_(has_dense_rows(view) ? nullptr : scratch.take(copy_size(view))) {}

  static std::int64_t copy_size(const TensorView& x) {
    return has_dense_rows(x) ? 0 : x.shape[2] * x.shape[3];
  }

  Rows at(std::int64_t b, std::int64_t h) const {
    float* start = view_.as<float>() + b * view_.strides[0] + h * view_.strides[1];
    if (copy_ == nullptr) return {start, view_.strides[2]};
    const std::int64_t depth = view_.shape[3];
    for (std::int64_t i = 0; i < view_.shape[2]; ++i)
      for (std::int64_t j = 0; j < depth; ++j)
        copy_[i * depth + j] = start[i * view_.strides[2] + j * view_.strides[3]];
    return {copy_, depth};
  }

 private:
  const TensorView& view_;
  float* copy_;
};

// Blocks of rows. Shorter ones skip more of what a causal mask hides, longer ones multiply faster.
std::int64_t block_rows(const AttentionProblem& problem) { return problem.causal ? 64 : 128; }

std::int64_t padded(std::int64_t columns) {
  return std::max<std::int64_t>((columns + kRowPadding - 1) / kRowPadding, 1) * kRowPadding;
}

struct Block {
  std::int64_t b, h, begin, end;
  std::int64_t count() const { return end - begin; }
};

class Forward {
 public:
  explicit Forward(const KernelCall& call)
      : problem_(call.inputs[0], call.inputs[1], call.inputs[2], call.attrs.as<AttentionAttrs>()),
        mask_(problem_, call.inputs.size() > 3 ? &call.inputs[3] : nullptr),
        stride_(padded(problem_.columns)),
        scratch_(scores_size() + Operand::copy_size(call.inputs[0]) +
                 Operand::copy_size(call.inputs[1]) + Operand::copy_size(call.inputs[2])),
        scores_{scratch_.take(scores_size()), stride_},
        q_(call.inputs[0], scratch_),
        k_(call.inputs[1], scratch_),
        v_(call.inputs[2], scratch_),
        y_(call.outputs[0].as<float>()),
        lse_(call.outputs[1].as<float>()) {}

  void run() const {
    const OneThread one;
    for (std::int64_t b = 0; b < problem_.batch; ++b)
      for (std::int64_t h = 0; h < problem_.heads; ++h) run_head(b, h);
  }

 private:
  std::int64_t scores_size() const { return block_rows(problem_) * stride_; }

  void run_head(std::int64_t b, std::int64_t h) const {
    const Rows q = q_.at(b, h), k = k_.at(b, h), v = v_.at(b, h);
    for (std::int64_t i = 0; i < problem_.rows; i += block_rows(problem_))
      run_block({b, h, i, std::min(i + block_rows(problem_), problem_.rows)}, q, k, v);
  }

  void run_block(const Block& block, Rows q, Rows k, Rows v) const {
    const std::int64_t width = problem_.visible(block.end - 1);
    const std::int64_t first = (block.b * problem_.heads + block.h) * problem_.rows + block.begin;
    const Rows y{y_ + first * problem_.value_depth, problem_.value_depth};
    float inverse_sums[128];
    sgemm({'N', 'T', block.count(), width, problem_.depth, static_cast<float>(problem_.scale)},
          q.from(block.begin), k, scores_);
    for (std::int64_t r = 0; r < block.count(); ++r) {
      const std::int64_t count = problem_.visible(block.begin + r);
      if (!mask_.none()) mask_.apply(scores_.row(r), block.b, block.h, block.begin + r, count);
      const SoftmaxRow row = softmax_row(scores_.row(r), count, width);
      inverse_sums[r] = row.sum > 0.0f ? 1.0f / row.sum : 0.0f;
      lse_[first + r] = row.max + std::log(row.sum);
    }
    sgemm({'N', 'N', block.count(), problem_.value_depth, width}, scores_, v, y);
    for (std::int64_t r = 0; r < block.count(); ++r)
      scale_row(y.row(r), problem_.value_depth, inverse_sums[r]);
  }

  AttentionProblem problem_;
  MaskView mask_;
  std::int64_t stride_;
  Scratch scratch_;
  Rows scores_;
  Operand q_, k_, v_;
  float* y_;
  float* lse_;
};

// Inputs: dy, q, k, v, y, lse[, mask]; outputs: dq, dk, dv.
class Backward {
 public:
  explicit Backward(const KernelCall& call)
      : problem_(call.inputs[1], call.inputs[2], call.inputs[3], call.attrs.as<AttentionAttrs>()),
        mask_(problem_, call.inputs.size() > 6 ? &call.inputs[6] : nullptr),
        stride_(padded(problem_.columns)),
        scratch_(2 * scores_size() + copies_size(call)),
        scores_{scratch_.take(scores_size()), stride_},
        dp_{scratch_.take(scores_size()), stride_},
        dy_(call.inputs[0], scratch_),
        q_(call.inputs[1], scratch_),
        k_(call.inputs[2], scratch_),
        v_(call.inputs[3], scratch_),
        y_(call.inputs[4], scratch_),
        lse_(call.inputs[5]),
        outputs_(call.outputs) {}

  void run() const {
    const OneThread one;
    for (std::int64_t b = 0; b < problem_.batch; ++b)
      for (std::int64_t h = 0; h < problem_.heads; ++h) run_head(b, h);
  }

 private:
  struct Head {
    Rows dy, q, k, v, y, dq, dk, dv;
  };

  std::int64_t scores_size() const { return block_rows(problem_) * stride_; }

  static std::int64_t copies_size(const KernelCall& call) {
    std::int64_t floats = 0;
    for (std::size_t i = 0; i < 5; ++i) floats += Operand::copy_size(call.inputs[i]);
    return floats;
  }

  Rows output(std::size_t i, std::int64_t b, std::int64_t h) const {
    const Shape& shape = outputs_[i].shape;
    return {outputs_[i].as<float>() + (b * problem_.heads + h) * shape[2] * shape[3], shape[3]};
  }

  // From the last block, which sees every column, to the first: the last one sets dk and dv, the
  // others add to them.
  void run_head(std::int64_t b, std::int64_t h) const {
    const Head head{dy_.at(b, h), q_.at(b, h),     k_.at(b, h),     v_.at(b, h),
                    y_.at(b, h),  output(0, b, h), output(1, b, h), output(2, b, h)};
    if (problem_.rows == 0) {
      std::fill_n(head.dk.data, problem_.columns * problem_.depth, 0.0f);
      std::fill_n(head.dv.data, problem_.columns * problem_.value_depth, 0.0f);
    }
    const std::int64_t step = block_rows(problem_);
    const std::int64_t blocks = (problem_.rows + step - 1) / step;
    for (std::int64_t i = blocks - 1; i >= 0; --i) {
      const bool last = i == blocks - 1;
      run_block({b, h, i * step, std::min((i + 1) * step, problem_.rows)}, head, last);
    }
  }

  void run_block(const Block& block, const Head& head, bool sets) const {
    const std::int64_t width = problem_.visible(block.end - 1);
    const std::int64_t count = block.count(), depth = problem_.depth;
    const std::int64_t value_depth = problem_.value_depth;
    const float beta = sets ? 0.0f : 1.0f;
    const Rows q = head.q.from(block.begin);
    const Rows dy = head.dy.from(block.begin);
    const Rows dq = head.dq.from(block.begin);
    sgemm({'N', 'T', count, width, depth, static_cast<float>(problem_.scale)}, q, head.k, scores_);
    sgemm({'N', 'T', count, width, value_depth}, dy, head.v, dp_);
    for (std::int64_t r = 0; r < count; ++r) run_row(block, head, r, width);
    sgemm({'T', 'N', width, value_depth, count, 1.0f, beta}, scores_, dy, head.dv);
    sgemm({'T', 'N', width, depth, count, 1.0f, beta}, dp_, q, head.dk);
    sgemm({'N', 'N', count, depth, width}, dp_, head.k, dq);
  }

  void run_row(const Block& block, const Head& head, std::int64_t r, std::int64_t width) const {
    const std::int64_t i = block.begin + r;
    const std::int64_t count = problem_.visible(i);
    if (!mask_.none()) mask_.apply(scores_.row(r), block.b, block.h, i, count);
    const float lse = lse_.as<float>()[block.b * lse_.strides[0] + block.h * lse_.strides[1] +
                                       i * lse_.strides[2]];
    const float delta = dot_row(head.dy.row(i), head.y.row(i), problem_.value_depth);
    softmax_backward_row(scores_.row(r), dp_.row(r), count, width,
                         {lse, delta, static_cast<float>(problem_.scale)});
  }

  AttentionProblem problem_;
  MaskView mask_;
  std::int64_t stride_;
  Scratch scratch_;
  Rows scores_, dp_;
  Operand dy_, q_, k_, v_, y_;
  const TensorView& lse_;
  std::span<const TensorView> outputs_;
};

void run_forward(const KernelCall& call) { Forward(call).run(); }
void run_backward(const KernelCall& call) { Backward(call).run(); }

}  // namespace

std::span<const KernelCandidate> attention_kernels() {
  static const KernelCandidate kernels[] = {
      {.name = "sgemm", .dtypes = {DType::float32}, .direct = run_forward, .strided_inputs = true},
      {.name = "reference", .dtypes = {DType::float64}, .direct = attention_reference}};
  return kernels;
}

std::span<const KernelCandidate> attention_backward_kernels() {
  static const KernelCandidate kernels[] = {
      {.name = "sgemm", .dtypes = {DType::float32}, .direct = run_backward, .strided_inputs = true},
      {.name = "reference", .dtypes = {DType::float64}, .direct = attention_backward_reference}};
  return kernels;
}

}  // namespace lockstep::kernels
