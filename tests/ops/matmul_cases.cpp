// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/ops/matmul.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;

// c[i, j] += sum over k of a[i, k] b[k, j], written with explicit strides.
struct View {
  const double* data;
  std::int64_t row, column;
};

void multiply(const View& a, const View& b, std::int64_t m, std::int64_t n, std::int64_t k,
              double* c) {
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t p = 0; p < k; ++p)
        c[i * n + j] += a.data[i * a.row + p * a.column] * b.data[p * b.row + j * b.column];
}

// Sizes of an operand as [batch..., rows, columns] after NumPy's treatment of vectors.
Shape as_matrix(const Shape& shape, bool left) {
  if (shape.rank() > 1) return shape;
  return left ? Shape{1, shape[0]} : Shape{shape[0], 1};
}

std::int64_t batch_offset(const Shape& matrix, const Shape& batch, std::int64_t index) {
  std::int64_t offset = 0, stride = matrix[matrix.rank() - 1] * matrix[matrix.rank() - 2];
  for (int i = batch.rank() - 1; i >= 0; --i) {
    const std::int64_t position = index % batch[i];
    index /= batch[i];
    const int axis = matrix.rank() - 2 - (batch.rank() - i);
    if (axis < 0) continue;
    if (matrix[axis] != 1) offset += position * stride;
    stride *= matrix[axis];
  }
  return offset;
}

Tensors matmul_reference(const Tensors& in, const MatmulAttrs& attrs) {
  const bool row = in[0].rank() == 1, column = in[1].rank() == 1;
  const bool ta = attrs.transpose_a && !row, tb = attrs.transpose_b && !column;
  const Shape a = as_matrix(in[0].shape(), true), b = as_matrix(in[1].shape(), false);
  const std::int64_t a_rows = a[a.rank() - 2], a_columns = a.back();
  const std::int64_t b_rows = b[b.rank() - 2], b_columns = b.back();
  const std::int64_t m = ta ? a_columns : a_rows, k = ta ? a_rows : a_columns;
  const std::int64_t n = tb ? b_rows : b_columns;
  Shape out = broadcast_shapes("reference", Shape(a.span().first(std::size_t(a.rank() - 2))),
                               Shape(b.span().first(std::size_t(b.rank() - 2))));
  const Shape batch = out;
  if (!row) out.push_back(m);
  if (!column) out.push_back(n);
  Tensor c = Tensor::zeros(out, DType::float64);
  for (std::int64_t i = 0; i < batch.numel() && m * n > 0; ++i)
    multiply(
        {in[0].data<double>() + batch_offset(a, batch, i), ta ? 1 : a_columns, ta ? a_columns : 1},
        {in[1].data<double>() + batch_offset(b, batch, i), tb ? 1 : b_columns, tb ? b_columns : 1},
        m, n, k, c.data<double>() + i * m * n);
  return {c};
}

OpCase matmul_case(std::string label, const Shape& a, const Shape& b, bool ta = false,
                   bool tb = false) {
  const MatmulAttrs attrs{ta, tb};
  OpCase c{
      "matmul", std::move(label), {random_tensor(a, 1), random_tensor(b, 2)}, Attrs::of(attrs)};
  c.reference = [attrs](const Tensors& in) { return matmul_reference(in, attrs); };
  return c;
}

void add_matmul(std::vector<OpCase>& cases) {
  cases.push_back(matmul_case("square", {3, 3}, {3, 3}));
  cases.push_back(matmul_case("wide", {5, 37}, {37, 19}));
  cases.push_back(matmul_case("a transposed", {37, 5}, {37, 19}, true, false));
  cases.push_back(matmul_case("b transposed", {5, 37}, {19, 37}, false, true));
  cases.push_back(matmul_case("both transposed", {7, 5}, {6, 7}, true, true));
  cases.push_back(matmul_case("vector by vector", {9}, {9}));
  cases.push_back(matmul_case("vector by matrix", {4}, {4, 5}));
  cases.push_back(matmul_case("matrix by vector", {5, 4}, {4}));
  cases.push_back(matmul_case("vector by batch", {4}, {2, 4, 3}));
  cases.push_back(matmul_case("batch by vector", {2, 3, 4}, {4}));
  cases.push_back(matmul_case("vector ignores transposition", {4}, {5, 4}, true, true));
  cases.push_back(matmul_case("batch", {2, 3, 4}, {2, 4, 5}));
  cases.push_back(matmul_case("batch by matrix", {2, 3, 4}, {4, 5}));
  cases.push_back(matmul_case("batch by matrix, b transposed", {2, 3, 4}, {5, 4}, false, true));
  cases.push_back(matmul_case("batch by matrix, a transposed", {2, 4, 3}, {4, 5}, true, false));
  cases.push_back(matmul_case("matrix by batch", {3, 4}, {2, 4, 5}));
  cases.push_back(matmul_case("batches broadcast", {2, 1, 3, 4}, {3, 4, 2}));
  cases.push_back(
      matmul_case("batches broadcast, transposed", {2, 1, 4, 3}, {3, 2, 4}, true, true));
  cases.push_back(matmul_case("size 1", {1, 1}, {1, 1}));
  cases.push_back(matmul_case("no rows", {0, 3}, {3, 2}));
  cases.push_back(matmul_case("inner size 0", {2, 0}, {0, 3}));
  cases.push_back(matmul_case("empty batch", {0, 2, 3}, {3, 4}));
  cases.push_back(matmul_case("deeper than one tile", {3, 300}, {300, 5}));
}

// x as [rows, features].
struct Rows {
  std::int64_t rows, features;
};

Rows rows_of(const Shape& x, bool flatten) {
  std::int64_t rows = flatten ? x[0] : 1, features = flatten ? 1 : x.back();
  for (int i = flatten ? 1 : 0; i < x.rank() - (flatten ? 0 : 1); ++i)
    (flatten ? features : rows) *= x[i];
  return {rows, features};
}

Shape output_shape(const Shape& x, std::int64_t units, bool flatten) {
  if (flatten) return {x[0], units};
  Shape y = x;
  y[y.rank() - 1] = units;
  return y;
}

Tensors dense_reference(const Tensors& in, const DenseAttrs& attrs) {
  const Rows n = rows_of(in[0].shape(), attrs.flatten);
  const std::int64_t units = in[1].shape(0);
  Tensor y = Tensor::zeros(output_shape(in[0].shape(), units, attrs.flatten), DType::float64);
  multiply({in[0].data<double>(), n.features, 1}, {in[1].data<double>(), 1, n.features}, n.rows,
           units, n.features, y.data<double>());
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    double& value = y.data<double>()[i];
    if (in.size() == 3) value += in[2].data<double>()[i % units];
    if (attrs.activation == "relu") value = std::max(value, 0.0);
  }
  return {y};
}

OpCase dense_case(std::string label, const Shape& x, std::int64_t units, bool bias,
                  DenseAttrs attrs = {}) {
  const Rows n = rows_of(x, attrs.flatten);
  OpCase c{"dense",
           std::move(label),
           {random_tensor(x, 1), random_tensor({units, n.features}, 2)},
           Attrs::of(attrs)};
  if (bias) c.inputs.push_back(random_tensor({units}, 3));
  c.reference = [attrs](const Tensors& in) { return dense_reference(in, attrs); };
  return c;
}

OpCase dense_data_case(std::string label, const Shape& x, std::int64_t units, bool flatten) {
  const Rows n = rows_of(x, flatten);
  OpCase c{
      "dense_backward_data",
      std::move(label),
      {random_tensor(output_shape(x, units, flatten), 1), random_tensor({units, n.features}, 2)},
      Attrs::of(DenseBackwardDataAttrs{x.vector(), flatten})};
  c.reference = [x, n, units](const Tensors& in) -> Tensors {
    Tensor dx = Tensor::zeros(x, DType::float64);
    multiply({in[0].data<double>(), units, 1}, {in[1].data<double>(), n.features, 1}, n.rows,
             n.features, units, dx.data<double>());
    return {dx};
  };
  return c;
}

Tensors dense_weights_reference(const Tensors& in, const Rows& n, bool with_bias) {
  const std::int64_t units = in[1].shape().back();
  Tensor dw = Tensor::zeros({units, n.features}, DType::float64);
  multiply({in[1].data<double>(), 1, units}, {in[0].data<double>(), n.features, 1}, units,
           n.features, n.rows, dw.data<double>());
  if (!with_bias) return {dw};
  Tensor db = Tensor::zeros({units}, DType::float64);
  for (std::int64_t i = 0; i < in[1].numel(); ++i)
    db.data<double>()[i % units] += in[1].data<double>()[i];
  return {dw, db};
}

OpCase dense_weights_case(std::string label, const Shape& x, std::int64_t units, bool flatten,
                          bool with_bias) {
  const Rows n = rows_of(x, flatten);
  OpCase c{"dense_backward_weights",
           std::move(label),
           {random_tensor(x, 1), random_tensor(output_shape(x, units, flatten), 2)},
           Attrs::of(DenseBackwardWeightsAttrs{flatten, with_bias})};
  c.reference = [n, with_bias](const Tensors& in) {
    return dense_weights_reference(in, n, with_bias);
  };
  return c;
}

void add_dense(std::vector<OpCase>& cases) {
  cases.push_back(dense_case("no bias", {4, 5}, 3, false));
  cases.push_back(dense_case("bias", {4, 37}, 19, true));
  cases.push_back(dense_case("images", {2, 3, 4, 2}, 5, true));
  cases.push_back(dense_case("blocked images", {2, 16, 2, 2}, 5, true));
  cases.push_back(dense_case("sequences", {2, 3, 5}, 4, true, {false, ""}));
  cases.push_back(dense_case("vector", {5}, 4, true, {false, ""}));
  cases.push_back(dense_case("relu", {3, 5}, 21, true, {true, "relu"}));
  cases.push_back(dense_case("relu, no bias", {3, 5}, 4, false, {true, "relu"}));
  cases.push_back(dense_case("many rows", {520, 3}, 5, true));
  cases.push_back(dense_case("many rows, relu, no bias", {2, 260, 3}, 4, false, {false, "relu"}));
  cases.push_back(dense_case("size 1", {1, 1}, 1, true));
  cases.push_back(dense_case("no rows", {0, 5}, 4, true));
  cases.push_back(dense_case("no features", {3, 0}, 4, true));
  cases.push_back(dense_case("no units", {3, 5}, 0, true));
}

void add_dense_backward(std::vector<OpCase>& cases) {
  cases.push_back(dense_data_case("matrix", {4, 37}, 19, true));
  cases.push_back(dense_data_case("images", {2, 3, 4, 2}, 5, true));
  cases.push_back(dense_data_case("sequences", {2, 3, 5}, 4, false));
  cases.push_back(dense_data_case("no rows", {0, 5}, 4, true));
  cases.push_back(dense_data_case("no units", {3, 5}, 0, true));
  cases.push_back(dense_weights_case("matrix", {4, 37}, 19, true, false));
  cases.push_back(dense_weights_case("bias", {70, 3}, 85, true, true));
  cases.push_back(dense_weights_case("images", {2, 3, 4, 2}, 5, true, true));
  cases.push_back(dense_weights_case("sequences", {2, 3, 5}, 4, false, true));
  cases.push_back(dense_weights_case("no rows", {0, 5}, 4, true, true));
  cases.push_back(dense_weights_case("no features", {3, 0}, 4, true, true));
}

}  // namespace

std::vector<OpCase> matmul_cases() {
  std::vector<OpCase> cases;
  add_matmul(cases);
  add_dense(cases);
  add_dense_backward(cases);
  return cases;
}

}  // namespace lockstep::testing
