// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/attention.h"

#include <cmath>
#include <vector>

#include "lockstep/ops/attention_attrs.h"
#include "lockstep/ops/cpu/attention_problem.h"
#include "lockstep/ops/cpu/attention_reference.h"
#include "lockstep/ops/cpu/attention_rows.h"
#include "lockstep/ops/cpu/sgemm.h"
#include "lockstep/ops/cpu/small_product.h"

// float32 attention, one (batch, head) pair at a time, whose operands are laid out densely first
// and then stay in the caches. Rows are taken in strips that are a tile of the products high:
// scores, softmax and sum over values of a strip never leave the first-level cache, and a causal
// strip stops at the last column that it sees. The backward pass computes the scores again instead
// of keeping [B, H, T, S] probabilities (Dao et al., FlashAttention, 2022).
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

// [B, T, H, D] read as [B, H, T, D].
TensorView heads_first(const TensorView& x) {
  TensorView y = x;
  std::swap(y.shape[1], y.shape[2]);
  std::swap(y.strides[1], y.strides[2]);
  return y;
}

// Asks for some rows of one head early. Each head takes a few cache lines out of every row of
// memory, which the processor does not foresee. Inline: the compiler drops calls of a function that
// does nothing else.
[[gnu::always_inline]] inline void fetch(const TensorView& x, std::int64_t b, std::int64_t h,
                                         std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kLine = 16;
  const float* start = x.as<float>() + b * x.strides[0] + h * x.strides[1];
  for (std::int64_t i = begin; i < std::min(end, x.shape[2]); ++i)
    for (std::int64_t j = 0; j < x.shape[3]; j += kLine)
      __builtin_prefetch(start + i * x.strides[2] + j, 1, 2);
}

// An operand of [B, H, T, D] of which one [T, D] is used at a time. `packed`: its rows have to lie
// one after the other, since rows that are a power of two apart push each other out of the
// first-level cache.
class Operand {
 public:
  Operand(const TensorView& view, bool packed, Scratch& scratch)
      : view(view), copy_(is_usable(view, packed) ? nullptr : scratch.take(rows_size(view))) {}

  static std::int64_t rows_size(const TensorView& x) { return x.shape[2] * x.shape[3]; }

  Rows at(std::int64_t b, std::int64_t h) const {
    const std::int64_t rows = view.shape[2], depth = view.shape[3];
    float* start = view.as<float>() + b * view.strides[0] + h * view.strides[1];
    if (copy_ == nullptr) return {start, view.strides[2]};
    if (view.strides[3] == 1)
      copy_rows(start, view.strides[2], rows, depth, copy_);
    else
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < depth; ++j)
          copy_[i * depth + j] = start[i * view.strides[2] + j * view.strides[3]];
    return {copy_, depth};
  }

  TensorView view;

 private:
  static bool is_usable(const TensorView& x, bool packed) {
    if (x.strides[3] != 1 && x.shape[3] != 1) return false;
    return packed ? x.strides[2] == x.shape[3] : x.strides[2] >= x.shape[3];
  }

  float* copy_;
};

constexpr std::int64_t kStrip = 8;
constexpr std::int64_t kColumnGroup = 16;

std::int64_t padded(std::int64_t columns) {
  return std::max<std::int64_t>((columns + kRowPadding - 1) / kRowPadding, 1) * kRowPadding;
}

// Some rows of one head.
struct Strip {
  std::int64_t b, h, begin, end;
  std::int64_t count() const { return end - begin; }
};

// What forward and backward share: the problem, and how far a strip reaches.
struct Common {
  Common(std::span<const TensorView> qkv, const TensorView* mask, const AttentionAttrs& attrs)
      : problem(qkv[0], qkv[1], qkv[2], attrs),
        mask(problem, mask),
        stride(padded(problem.columns)) {}

  // Columns that some row of the strip sees.
  std::int64_t seen(const Strip& strip) const { return problem.visible(strip.end - 1); }
  // The same in whole groups: what is computed. There is room for it, and zeros to read.
  std::int64_t width(const Strip& strip) const {
    return (seen(strip) + kColumnGroup - 1) / kColumnGroup * kColumnGroup;
  }

  // c = factor * a b^T for the rows of a strip, with b^T in rows of `stride`.
  void scores(const Strip& strip, Rows a, std::int64_t depth, const float* b, float factor,
              float* c) const {
    small_product({strip.count(), width(strip), depth, a.row(strip.begin), a.stride, 1, b, stride,
                   c, stride, factor});
  }

  template <class F>
  void each_head(F&& f) const {
    for (std::int64_t b = 0; b < problem.batch; ++b)
      for (std::int64_t h = 0; h < problem.heads; ++h) f(b, h);
  }

  // The rows of a strip in the head that comes next. Called between products, for a few cache lines
  // each time: no more than so many can be under way.
  void fetch_next(const Strip& strip, const TensorView& view) const {
    const std::int64_t next = strip.b * problem.heads + strip.h + 1;
    if (next < problem.batch * problem.heads)
      fetch(view, next / problem.heads, next % problem.heads, strip.begin, strip.end);
  }

  AttentionProblem problem;
  MaskView mask;
  std::int64_t stride;
};

const TensorView* mask_of(const KernelCall& call, std::size_t index) {
  return call.inputs.size() > index ? &call.inputs[index] : nullptr;
}

// Inputs: q, k, v[, mask]; outputs: y, log_sum.
class Forward : Common {
 public:
  explicit Forward(const KernelCall& call)
      : Common(call.inputs.first(3), mask_of(call, 3), call.attrs.as<AttentionAttrs>()),
        scratch_((kStrip + problem.depth) * stride + Operand::rows_size(call.inputs[0]) +
                 Operand::rows_size(call.inputs[1]) + Operand::rows_size(call.inputs[2])),
        scores_{scratch_.take(kStrip * stride), stride},
        turned_k_(scratch_.take(problem.depth * stride)),
        q_(call.inputs[0], false, scratch_),
        k_(call.inputs[1], false, scratch_),
        v_(call.inputs[2], true, scratch_),
        y_(heads_first(call.outputs[0])),
        log_sum_(call.outputs[1].as<float>()) {}

  void run() const {
    each_head([&](std::int64_t b, std::int64_t h) { run_head(b, h); });
  }

 private:
  void run_head(std::int64_t b, std::int64_t h) const {
    const Rows q = q_.at(b, h), k = k_.at(b, h), v = v_.at(b, h);
    transpose_rows(k.data, k.stride, problem.columns, problem.depth, turned_k_, stride);
    for (std::int64_t i = 0; i < problem.rows; i += kStrip)
      run_strip({b, h, i, std::min(i + kStrip, problem.rows)}, q, v);
  }

  void run_strip(const Strip& strip, Rows q, Rows v) const {
    fetch_next(strip, q_.view);
    fetch_next(strip, k_.view);
    scores(strip, q, problem.depth, turned_k_, static_cast<float>(problem.scale), scores_.data);
    fetch_next(strip, v_.view);
    float inverse_sums[kStrip];
    for (std::int64_t r = 0; r < strip.count(); ++r) inverse_sums[r] = run_row(strip, r);
    const Rows y{y_.as<float>() + strip.b * y_.strides[0] + strip.h * y_.strides[1] +
                     strip.begin * y_.strides[2],
                 y_.strides[2]};
    fetch_next(strip, y_);
    small_product({strip.count(), problem.value_depth, seen(strip), scores_.data, stride, 1, v.data,
                   v.stride, y.data, y.stride});
    for (std::int64_t r = 0; r < strip.count(); ++r)
      scale_row(y.row(r), problem.value_depth, inverse_sums[r]);
  }

  // Leaves exponentials in the row of scores; returns what they have to be multiplied by.
  float run_row(const Strip& strip, std::int64_t r) const {
    const std::int64_t i = strip.begin + r;
    const std::int64_t count = problem.visible(i);
    if (!mask.none()) mask.apply(scores_.row(r), strip.b, strip.h, i, count);
    float sum = softmax_row(scores_.row(r), count, width(strip));
    const bool nothing = sum == 0.0f;
    if (nothing && mask.shows<float>(strip.b, strip.h, i, count)) sum = no_softmax(r, count);
    log_sum_[(strip.b * problem.heads + strip.h) * problem.rows + i] = std::log(sum);
    return sum == 0.0f ? 0.0f : 1.0f / sum;
  }

  // For a row whose scores are -inf though it sees them: NaN, as softmax gives.
  float no_softmax(std::int64_t r, std::int64_t count) const {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    std::fill_n(scores_.row(r), count, nan);
    return nan;
  }

  Scratch scratch_;
  Rows scores_;
  float* turned_k_;
  Operand q_, k_, v_;
  TensorView y_;
  float* log_sum_;
};

// Inputs: dy, q, k, v, y, log_sum[, mask]; outputs: dq, dk, dv, or all in one.
class Backward : Common {
 public:
  explicit Backward(const KernelCall& call)
      : Common(call.inputs.subspan(1, 3), mask_of(call, 6), call.attrs.as<AttentionAttrs>()),
        scratch_((2 * kBlock + problem.depth + problem.value_depth) * stride + copies_size(call)),
        scores_{scratch_.take(kBlock * stride), stride},
        dp_{scratch_.take(kBlock * stride), stride},
        turned_k_(scratch_.take(problem.depth * stride)),
        turned_v_(scratch_.take(problem.value_depth * stride)),
        dy_(heads_first(call.inputs[0]), true, scratch_),
        q_(call.inputs[1], true, scratch_),
        k_(call.inputs[2], true, scratch_),
        v_(call.inputs[3], false, scratch_),
        y_(heads_first(call.inputs[4]), false, scratch_),
        log_sum_(call.inputs[5]),
        dq_(gradient(call, 0)),
        dk_(gradient(call, 1)),
        dv_(gradient(call, 2)) {}

  void run() const {
    each_head([&](std::int64_t b, std::int64_t h) { run_head(b, h); });
  }

 private:
  // So many rows are summed up at a time in dk and dv.
  static constexpr std::int64_t kBlock = 64;

  struct Head {
    Rows dy, q, k, v, y, dq, dk, dv;
  };

  static std::int64_t copies_size(const KernelCall& call) {
    std::int64_t floats = 0;
    for (std::size_t i = 1; i < 4; ++i) floats += Operand::rows_size(call.inputs[i]);
    return floats + 2 * Operand::rows_size(heads_first(call.inputs[0]));
  }

  // As [B, H, T, D]: an output of its own, or number `part` in one of [B, T, 3, H, D].
  static TensorView gradient(const KernelCall& call, std::int64_t part) {
    if (call.outputs.size() == 3) return heads_first(call.outputs[static_cast<std::size_t>(part)]);
    const TensorView& all = call.outputs[0];
    const Strides& s = all.strides;
    const auto skipped = static_cast<std::size_t>(part * s[2]) * sizeof(float);
    return {all.data + skipped,
            {all.shape[0], all.shape[3], all.shape[1], all.shape[4]},
            {s[0], s[3], s[1], s[4]},
            all.dtype};
  }

  static Rows rows_of(const TensorView& view, std::int64_t b, std::int64_t h) {
    return {view.as<float>() + b * view.strides[0] + h * view.strides[1], view.strides[2]};
  }

  // From the last block, which sees every column, to the first: the last one sets dk and dv, the
  // others add to them.
  void run_head(std::int64_t b, std::int64_t h) const {
    const Head head{dy_.at(b, h), q_.at(b, h),        k_.at(b, h),        v_.at(b, h),
                    y_.at(b, h),  rows_of(dq_, b, h), rows_of(dk_, b, h), rows_of(dv_, b, h)};
    transpose_rows(head.k.data, head.k.stride, problem.columns, problem.depth, turned_k_, stride);
    transpose_rows(head.v.data, head.v.stride, problem.columns, problem.value_depth, turned_v_,
                   stride);
    if (problem.rows == 0) sum_columns({b, h, 0, 0}, head, 0, true);
    const std::int64_t blocks = (problem.rows + kBlock - 1) / kBlock;
    for (std::int64_t i = blocks - 1; i >= 0; --i)
      run_block({b, h, i * kBlock, std::min((i + 1) * kBlock, problem.rows)}, head,
                i == blocks - 1);
  }

  void run_block(const Strip& block, const Head& head, bool sets) const {
    for (std::int64_t i = block.begin; i < block.end; i += kStrip)
      run_strip({block.b, block.h, i, std::min(i + kStrip, block.end)}, head, i - block.begin);
    sum_columns(block, head, seen(block), sets);
  }

  void run_strip(const Strip& strip, const Head& head, std::int64_t first) const {
    float* p = scores_.row(first);
    float* ds = dp_.row(first);
    fetch_next(strip, dy_.view);
    fetch_next(strip, q_.view);
    scores(strip, head.q, problem.depth, turned_k_, static_cast<float>(problem.scale), p);
    fetch_next(strip, k_.view);
    fetch_next(strip, v_.view);
    scores(strip, head.dy, problem.value_depth, turned_v_, 1.0f, ds);
    for (std::int64_t r = 0; r < strip.count(); ++r)
      run_row(strip, head, strip.begin + r, p + r * stride, ds + r * stride);
    fetch_next(strip, y_.view);
    fetch_next(strip, dq_);
    small_product({strip.count(), problem.depth, seen(strip), ds, stride, 1, head.k.data,
                   head.k.stride, head.dq.row(strip.begin), head.dq.stride});
  }

  void run_row(const Strip& strip, const Head& head, std::int64_t i, float* p, float* ds) const {
    const std::int64_t count = problem.visible(i);
    if (!mask.none()) mask.apply(p, strip.b, strip.h, i, count);
    const float log_sum =
        log_sum_.as<float>()[strip.b * log_sum_.strides[0] + strip.h * log_sum_.strides[1] +
                             i * log_sum_.strides[2]];
    const float delta = dot_row(head.dy.row(i), head.y.row(i), problem.value_depth);
    softmax_backward_row(p, ds, count, width(strip),
                         {log_sum, delta, static_cast<float>(problem.scale)});
  }

  // dv and dk of `columns` columns, a group at a time, from the rows of a block; strips that see
  // nothing of a group are left out.
  void sum_columns(const Strip& block, const Head& head, std::int64_t columns, bool sets) const {
    const std::int64_t all = sets ? problem.columns : columns;
    std::int64_t first = 0;
    for (std::int64_t j = 0; j < all; j += kStrip) {
      while (first < block.count() && width(strip_at(block, first)) <= j) first += kStrip;
      const std::int64_t count = std::min(kStrip, all - j), depth = block.count() - first;
      const std::int64_t from = block.begin + first;
      const Strip group{block.b, block.h, j, j + count};
      if (sets) fetch_next(group, dv_);
      small_product({count, problem.value_depth, depth, scores_.row(first) + j, 1, stride,
                     head.dy.row(from), head.dy.stride, head.dv.row(j), head.dv.stride, 1.0f,
                     !sets});
      if (sets) fetch_next(group, dk_);
      small_product({count, problem.depth, depth, dp_.row(first) + j, 1, stride, head.q.row(from),
                     head.q.stride, head.dk.row(j), head.dk.stride, 1.0f, !sets});
    }
  }

  static Strip strip_at(const Strip& block, std::int64_t first) {
    const std::int64_t begin = block.begin + first;
    return {block.b, block.h, begin, std::min(begin + kStrip, block.end)};
  }

  Scratch scratch_;
  Rows scores_, dp_;
  float* turned_k_;
  float* turned_v_;
  Operand dy_, q_, k_, v_, y_;
  const TensorView& log_sum_;
  TensorView dq_, dk_, dv_;
};

void run_forward(const KernelCall& call) { Forward(call).run(); }
void run_backward(const KernelCall& call) { Backward(call).run(); }

}  // namespace

std::span<const KernelCandidate> attention_kernels() {
  static const KernelCandidate kernels[] = {
      {.name = "strips", .dtypes = {DType::float32}, .direct = run_forward, .strided_inputs = true},
      {.name = "reference", .dtypes = {DType::float64}, .direct = attention_reference}};
  return kernels;
}

std::span<const KernelCandidate> attention_backward_kernels() {
  static const KernelCandidate kernels[] = {
      {.name = "strips",
       .dtypes = {DType::float32},
       .direct = run_backward,
       .strided_inputs = true},
      {.name = "reference", .dtypes = {DType::float64}, .direct = attention_backward_reference}};
  return kernels;
}

}  // namespace lockstep::kernels
