// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "lockstep/ops/attention_attrs.h"
#include "lockstep/ops/shape_ops.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;

struct Sizes {
  std::int64_t batch, heads, rows, columns, depth, value_depth;
};

// The mask's contribution to one score, or -inf.
double mask_value(const Tensor& mask, const Shape& scores, const std::int64_t (&at)[4]) {
  const Strides strides = broadcast_strides(mask.shape(), contiguous_strides(mask.shape()), scores);
  std::int64_t offset = 0;
  for (int i = 0; i < 4; ++i) offset += at[i] * strides[i];
  if (mask.dtype() != DType::boolean) return mask.data<double>()[offset];
  return mask.data<bool>()[offset] ? 0.0 : -std::numeric_limits<double>::infinity();
}

struct Naive {
  std::vector<double> p;         // [B, H, T, S]
  std::vector<double> log_sums;  // [B, H, T], relative to the row's largest score
  Sizes n;
};

Sizes sizes_of(const Tensor& q, const Tensor& k, const Tensor& v) {
  return {q.shape(0), q.shape(1), q.shape(2), k.shape(2), q.shape(3), v.shape(3)};
}

double score(const Tensors& in, const Sizes& n, const std::int64_t (&at)[4],
             const AttentionAttrs& attrs) {
  const auto [b, h, i, j] = at;
  if (attrs.causal && j > i + n.columns - n.rows) return -std::numeric_limits<double>::infinity();
  const double* q = in[0].data<double>() + ((b * n.heads + h) * n.rows + i) * n.depth;
  const double* k = in[1].data<double>() + ((b * n.heads + h) * n.columns + j) * n.depth;
  double sum = 0.0;
  for (std::int64_t d = 0; d < n.depth; ++d) sum += q[d] * k[d];
  const double scale =
      attrs.scale != 0.0 ? attrs.scale : 1.0 / std::sqrt(static_cast<double>(n.depth));
  sum *= scale;
  if (in.size() > 3) sum += mask_value(in[3], {n.batch, n.heads, n.rows, n.columns}, at);
  return sum;
}

// q, k, v[, mask]
Naive naive_softmax(const Tensors& in, const AttentionAttrs& attrs) {
  Naive result;
  const Sizes n = result.n = sizes_of(in[0], in[1], in[2]);
  for (std::int64_t b = 0; b < n.batch; ++b)
    for (std::int64_t h = 0; h < n.heads; ++h)
      for (std::int64_t i = 0; i < n.rows; ++i) {
        std::vector<double> row;
        double total = 0.0;
        for (std::int64_t j = 0; j < n.columns; ++j) {
          row.push_back(std::exp(score(in, n, {b, h, i, j}, attrs)));
          total += row.back();
        }
        for (double e : row) result.p.push_back(total > 0.0 ? e / total : 0.0);
        const auto largest = std::max_element(row.begin(), row.end());
        result.log_sums.push_back(total > 0.0 ? std::log(total / *largest) : std::log(0.0));
      }
  return result;
}

// Between [B, H, T, D], which the sums here are over, and [B, T, H, D], which the ops give and
// take.
Tensor swap_heads(const Tensor& x) { return transpose(x, {0, 2, 1, 3}).contiguous(); }

Tensors naive_attention(const Tensors& in, const AttentionAttrs& attrs) {
  const Naive s = naive_softmax(in, attrs);
  const Sizes& n = s.n;
  Tensor y = Tensor::zeros({n.batch, n.heads, n.rows, n.value_depth}, DType::float64);
  const std::int64_t groups = n.batch * n.heads;
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t i = 0; i < n.rows; ++i)
      for (std::int64_t j = 0; j < n.columns; ++j)
        for (std::int64_t d = 0; d < n.value_depth; ++d)
          y.data<double>()[(g * n.rows + i) * n.value_depth + d] +=
              s.p[static_cast<std::size_t>((g * n.rows + i) * n.columns + j)] *
              in[2].data<double>()[(g * n.columns + j) * n.value_depth + d];
  return {swap_heads(y), Tensor::from(s.log_sums, {n.batch, n.heads, n.rows})};
}

// Row sums of minus infinity, where a row sees nothing, are not compared.
Tensors comparable(Tensors outputs) {
  for (double value : outputs[1].to_vector<double>())
    if (std::isinf(value)) return {outputs[0], Tensor()};
  return outputs;
}

// dy, q, k, v, y, log_sum[, mask]. The probabilities are those of q and k, the row sums those of y.
Tensors naive_backward(const Tensors& all, const AttentionAttrs& attrs) {
  Tensors in(all.begin() + 1, all.begin() + 4);
  if (all.size() > 6) in.push_back(all[6]);
  const Naive s = naive_softmax(in, attrs);
  const Sizes& n = s.n;
  const Tensor all_dy = swap_heads(all[0]), all_y = swap_heads(all[4]);
  Tensor dq = Tensor::zeros(in[0].shape(), DType::float64);
  Tensor dk = Tensor::zeros(in[1].shape(), DType::float64);
  Tensor dv = Tensor::zeros(in[2].shape(), DType::float64);
  const double scale =
      attrs.scale != 0.0 ? attrs.scale : 1.0 / std::sqrt(static_cast<double>(n.depth));
  for (std::int64_t g = 0; g < n.batch * n.heads; ++g)
    for (std::int64_t i = 0; i < n.rows; ++i) {
      const double* dy = all_dy.data<double>() + (g * n.rows + i) * n.value_depth;
      const double* y = all_y.data<double>() + (g * n.rows + i) * n.value_depth;
      double delta = 0.0;
      for (std::int64_t d = 0; d < n.value_depth; ++d) delta += dy[d] * y[d];
      for (std::int64_t j = 0; j < n.columns; ++j) {
        const double p = s.p[static_cast<std::size_t>((g * n.rows + i) * n.columns + j)];
        double dp = 0.0;
        for (std::int64_t d = 0; d < n.value_depth; ++d) {
          const std::int64_t at = (g * n.columns + j) * n.value_depth + d;
          dp += dy[d] * in[2].data<double>()[at];
          dv.data<double>()[at] += p * dy[d];
        }
        const double ds = p * (dp - delta) * scale;
        for (std::int64_t d = 0; d < n.depth; ++d) {
          const std::int64_t row = (g * n.rows + i) * n.depth + d;
          const std::int64_t column = (g * n.columns + j) * n.depth + d;
          dq.data<double>()[row] += ds * in[1].data<double>()[column];
          dk.data<double>()[column] += ds * in[0].data<double>()[row];
        }
      }
    }
  const Tensors grads{swap_heads(dq), swap_heads(dk), swap_heads(dv)};
  if (dq.shape() != dk.shape() || dq.shape() != dv.shape()) return grads;
  return {stack(grads, 2).contiguous()};
}

Tensor bool_mask(const Shape& shape, std::uint64_t seed) {
  const Tensor numbers = random_tensor(shape, seed, 0.0, 1.0);
  std::vector<bool> keep;
  for (double value : numbers.to_vector<double>()) keep.push_back(value > 0.3);
  return Tensor::from(keep, shape);
}

OpCase forward_case(std::string label, const Sizes& n, AttentionAttrs attrs, Tensor mask = {}) {
  OpCase row;
  row.op = "attention";
  row.label = std::move(label);
  row.inputs = {random_tensor({n.batch, n.heads, n.rows, n.depth}, 1),
                random_tensor({n.batch, n.heads, n.columns, n.depth}, 2),
                random_tensor({n.batch, n.heads, n.columns, n.value_depth}, 3)};
  if (mask.defined()) row.inputs.push_back(mask);
  row.attrs = Attrs::of(attrs);
  row.reference = [attrs](const Tensors& inputs) {
    return comparable(naive_attention(inputs, attrs));
  };
  return row;
}

OpCase backward_case(const OpCase& forward, AttentionAttrs attrs) {
  const Tensors outputs = naive_attention(forward.inputs, attrs);
  OpCase row = forward;
  row.op = "attention_backward";
  row.inputs = {random_tensor(outputs[0].shape(), 4),
                forward.inputs[0],
                forward.inputs[1],
                forward.inputs[2],
                outputs[0],
                outputs[1]};
  if (forward.inputs.size() > 3) row.inputs.push_back(forward.inputs[3]);
  row.reference = [attrs](const Tensors& inputs) { return naive_backward(inputs, attrs); };
  // The halves round y and the row sums before the kernel sees them.
  row.dtypes = {DType::float32, DType::float64};
  row.tolerance = 1e-4;
  return row;
}

}  // namespace

std::vector<OpCase> attention_cases() {
  struct Spec {
    std::string label;
    Sizes n;
    AttentionAttrs attrs;
    Tensor mask;
  };
  const std::vector<Spec> specs = {
      {"small", {2, 2, 3, 3, 4, 4}, {}, {}},
      {"causal", {1, 2, 5, 5, 3, 3}, {true, 0.0}, {}},
      {"causal, longer keys", {1, 1, 3, 6, 2, 2}, {true, 0.0}, {}},
      {"causal, rows that see nothing", {1, 1, 4, 2, 2, 2}, {true, 0.0}, {}},
      {"given scale, other value depth", {1, 2, 3, 4, 2, 5}, {false, 0.7}, {}},
      {"bool mask", {2, 2, 4, 5, 3, 3}, {}, bool_mask({2, 1, 4, 5}, 7)},
      {"float mask", {2, 2, 3, 4, 3, 3}, {}, random_tensor({3, 4}, 8)},
      {"causal and float mask", {1, 2, 4, 4, 2, 2}, {true, 0.0}, random_tensor({2, 1, 4}, 9)},
      {"one key", {1, 1, 2, 1, 1, 1}, {}, {}},
      {"no rows", {2, 1, 0, 3, 2, 2}, {}, {}},
      {"no keys", {1, 1, 2, 0, 2, 2}, {}, {}},
      {"no batch", {0, 2, 3, 3, 4, 4}, {}, {}},
      {"across blocks", {1, 1, 150, 150, 17, 17}, {}, {}},
      {"causal across blocks", {1, 2, 140, 140, 16, 16}, {true, 0.0}, {}},
      {"causal across blocks, longer keys", {1, 2, 70, 99, 33, 18}, {true, 0.0}, {}},
      {"causal across blocks, rows that see nothing", {1, 1, 91, 75, 5, 32}, {true, 0.0}, {}},
  };
  std::vector<OpCase> cases;
  for (const Spec& spec : specs) {
    OpCase row = forward_case(spec.label, spec.n, spec.attrs, spec.mask);
    row.check_gradient = spec.n.rows < 100;
    cases.push_back(row);
    cases.push_back(backward_case(row, spec.attrs));
    // Perturbing row sums of minus infinity means nothing.
    if (spec.label == "no keys" || spec.label.ends_with("rows that see nothing"))
      cases.back().check_gradient = cases[cases.size() - 2].check_gradient = false;
  }
  return cases;
}

}  // namespace lockstep::testing
