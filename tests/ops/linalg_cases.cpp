// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lockstep/ops/linalg_attrs.h"
#include "lockstep/ops/shape_ops.h"
#include "tests/ops/op_cases.h"

// References that are short, not fast: elimination, Gram and Schmidt, Jacobi's rotations.
namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;
using Cases = std::vector<OpCase>;

struct Matrix {
  int rows, columns;
  std::vector<double> values;

  Matrix(int m, int n)
      : rows(m), columns(n), values(static_cast<std::size_t>(m) * static_cast<std::size_t>(n)) {}
  double& operator()(int i, int j) { return values[static_cast<std::size_t>(i * columns + j)]; }
  double operator()(int i, int j) const {
    return values[static_cast<std::size_t>(i * columns + j)];
  }
};

using Matrices = std::vector<Matrix>;

Matrix identity(int n) {
  Matrix m(n, n);
  for (int i = 0; i < n; ++i) m(i, i) = 1.0;
  return m;
}

Matrix transposed(const Matrix& a) {
  Matrix t(a.columns, a.rows);
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.columns; ++j) t(j, i) = a(i, j);
  return t;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < b.columns; ++j)
      for (int k = 0; k < a.columns; ++k) c(i, j) += a(i, k) * b(k, j);
  return c;
}

int size_at(const Tensor& x, int axis) { return static_cast<int>(x.shape(axis)); }

Matrices split(const Tensor& x) {
  Matrix one(size_at(x, -2), size_at(x, -1));
  const std::vector<double> values = x.to_vector<double>();
  const std::size_t size = one.values.size();
  Matrices all;
  for (std::size_t at = 0; size > 0 && at < values.size(); at += size) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(at), size, one.values.begin());
    all.push_back(one);
  }
  return all;
}

// The batch of `like`, then these sizes.
Tensor joined(const Matrices& parts, const Tensor& like, std::vector<std::int64_t> sizes) {
  std::vector<double> values;
  for (const Matrix& m : parts) values.insert(values.end(), m.values.begin(), m.values.end());
  Shape shape(like.shape().span().first(static_cast<std::size_t>(like.rank() - 2)));
  for (std::int64_t size : sizes) shape.push_back(size);
  return Tensor::from(values, shape);
}

Matrix symmetric(const Matrix& a) {
  Matrix s = a;
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.rows; ++j) s(i, j) = (a(i, j) + a(j, i)) / 2.0;
  return s;
}

Matrix lower_factor(const Matrix& a) {
  Matrix l(a.rows, a.rows);
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j <= i; ++j) {
      double rest = a(i, j);
      for (int k = 0; k < j; ++k) rest -= l(i, k) * l(j, k);
      l(i, j) = i == j ? std::sqrt(rest) : rest / l(j, j);
    }
  return l;
}

// Gauss and Jordan: `b` becomes a^-1 b, and the determinant is returned.
double eliminate(Matrix a, Matrix& b) {
  double det = 1.0;
  const auto swap_rows = [](Matrix& m, int i, int j) {
    for (int k = 0; k < m.columns; ++k) std::swap(m(i, k), m(j, k));
  };
  for (int c = 0; c < a.rows; ++c) {
    int pivot = c;
    for (int i = c; i < a.rows; ++i)
      if (std::abs(a(i, c)) > std::abs(a(pivot, c))) pivot = i;
    if (a(pivot, c) == 0.0) return 0.0;
    if (pivot != c) {
      swap_rows(a, c, pivot);
      swap_rows(b, c, pivot);
      det = -det;
    }
    det *= a(c, c);
    for (int i = 0; i < a.rows; ++i) {
      const double factor = i == c ? 1.0 - 1.0 / a(c, c) : a(i, c) / a(c, c);
      for (Matrix* m : {&b, &a})
        for (int k = 0; k < m->columns; ++k) (*m)(i, k) -= factor * (*m)(c, k);
    }
  }
  return det;
}

double determinant(const Matrix& a) {
  Matrix nothing(a.rows, 0);
  return eliminate(a, nothing);
}

void point_upwards(Matrix& vectors, Matrix* partner = nullptr) {
  for (int j = 0; j < vectors.columns; ++j) {
    double largest = 0.0;
    for (int i = 0; i < vectors.rows; ++i)
      if (std::abs(vectors(i, j)) > std::abs(largest)) largest = vectors(i, j);
    if (largest >= 0.0) continue;
    for (int i = 0; i < vectors.rows; ++i) vectors(i, j) = -vectors(i, j);
    for (int k = 0; partner != nullptr && k < partner->columns; ++k)
      (*partner)(j, k) = -(*partner)(j, k);
  }
}

struct Spectrum {
  std::vector<double> values;
  Matrix vectors;
};

// Jacobi's rotations; the values ascend.
Spectrum spectrum(Matrix a) {
  const int n = a.rows;
  Matrix v = identity(n);
  for (int sweep = 0; sweep < 60; ++sweep)
    for (int p = 0; p < n; ++p)
      for (int q = p + 1; q < n; ++q) {
        if (a(p, q) == 0.0) continue;
        const double angle = 0.5 * std::atan2(2.0 * a(p, q), a(q, q) - a(p, p));
        Matrix turn = identity(n);
        turn(p, p) = turn(q, q) = std::cos(angle);
        turn(p, q) = std::sin(angle);
        turn(q, p) = -std::sin(angle);
        a = product(product(transposed(turn), a), turn);
        v = product(v, turn);
      }
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int i, int j) { return a(i, i) < a(j, j); });
  Spectrum result{{}, Matrix(n, n)};
  for (int j = 0; j < n; ++j) {
    const int from = order[static_cast<std::size_t>(j)];
    result.values.push_back(a(from, from));
    for (int i = 0; i < n; ++i) result.vectors(i, j) = v(i, from);
  }
  point_upwards(result.vectors);
  return result;
}

Matrix as_row(const std::vector<double>& values) {
  Matrix m(1, static_cast<int>(values.size()));
  m.values = values;
  return m;
}

// Well away from singular: the diagonal outweighs the rest.
Tensor regular(const Shape& shape, std::uint64_t seed) {
  std::vector<double> values = random_tensor(shape, seed).to_vector<double>();
  const auto n = static_cast<std::size_t>(shape.back());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i / n % n == i % n) values[i] += i % 2 ? 2.5 : -2.5;
  return Tensor::from(values, shape);
}

Tensor positive_definite(const Shape& shape, std::uint64_t seed) {
  Matrices all = split(random_tensor(shape, seed));
  for (Matrix& m : all) {
    m = product(m, transposed(m));
    for (int i = 0; i < m.rows; ++i) m(i, i) += 0.5;
  }
  const std::int64_t n = shape.back();
  return joined(all, Tensor::zeros(shape), {n, n});
}

using Reference = std::function<Tensors(const Tensors&)>;

void add(Cases& cases, const std::string& op, const Tensors& inputs, const Attrs& attrs,
         const Reference& reference) {
  cases.push_back({.op = op,
                   .label = inputs[0].shape().str(),
                   .inputs = inputs,
                   .attrs = attrs,
                   .reference = reference,
                   .dtypes = {DType::float32, DType::float64},
                   .tolerance = 2e-4,
                   .gradient_tolerance = 1e-4});
}

const Shape kSquares[] = {{3, 3}, {1, 1}, {2, 4, 4}, {2, 1, 2, 2}, {0, 0}, {0, 3, 3}, {2, 0, 0}};

void add_factors(Cases& cases, const Shape& shape) {
  const std::int64_t n = shape.back();
  add(cases, "cholesky", {positive_definite(shape, 71)}, {}, [=](const Tensors& in) -> Tensors {
    Matrices all = split(in[0]);
    for (Matrix& m : all) m = lower_factor(symmetric(m));
    return {joined(all, in[0], {n, n})};
  });
  add(cases, "eigh", {random_tensor(shape, 72)}, {}, [=](const Tensors& in) -> Tensors {
    Matrices values, vectors;
    for (const Matrix& m : split(in[0])) {
      const Spectrum s = spectrum(symmetric(m));
      values.push_back(as_row(s.values));
      vectors.push_back(s.vectors);
    }
    return {joined(values, in[0], {n}), joined(vectors, in[0], {n, n})};
  });
}

// Of a matrix without elements it is 1.
std::vector<double> determinants(const Tensor& a) {
  std::vector<double> dets;
  for (const Matrix& m : split(a)) dets.push_back(determinant(m));
  const Shape batch(a.shape().span().first(static_cast<std::size_t>(a.rank() - 2)));
  dets.resize(static_cast<std::size_t>(batch.numel()), 1.0);
  return dets;
}

Matrix without(const Matrix& a, int row, int column) {
  Matrix rest(a.rows - 1, a.columns - 1);
  for (int i = 0; i < rest.rows; ++i)
    for (int j = 0; j < rest.columns; ++j) rest(i, j) = a(i + (i >= row), j + (j >= column));
  return rest;
}

Matrix cofactors_of(const Matrix& a) {
  Matrix made(a.rows, a.columns);
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.columns; ++j)
      made(i, j) = ((i + j) % 2 ? -1.0 : 1.0) * determinant(without(a, i, j));
  return made;
}

void add_inverses(Cases& cases, const Shape& shape) {
  const std::int64_t n = shape.back();
  add(cases, "inverse", {regular(shape, 73)}, {}, [=](const Tensors& in) -> Tensors {
    Matrices all = split(in[0]);
    for (Matrix& m : all) {
      Matrix result = identity(m.rows);
      eliminate(m, result);
      m = result;
    }
    return {joined(all, in[0], {n, n})};
  });
  add(cases, "det", {regular(shape, 73)}, {}, [](const Tensors& in) -> Tensors {
    return {joined({as_row(determinants(in[0]))}, in[0], {})};
  });
  add(cases, "cofactors", {regular(shape, 73)}, {}, [=](const Tensors& in) -> Tensors {
    Matrices all = split(in[0]);
    for (Matrix& m : all) m = cofactors_of(m);
    return {joined(all, in[0], {n, n})};
  });
  add(cases, "slogdet", {regular(shape, 74)}, {}, [](const Tensors& in) -> Tensors {
    std::vector<double> signs, logs;
    for (double det : determinants(in[0])) {
      signs.push_back(det > 0 ? 1.0 : det < 0 ? -1.0 : 0.0);
      logs.push_back(std::log(std::abs(det)));
    }
    return {joined({as_row(signs)}, in[0], {}), joined({as_row(logs)}, in[0], {})};
  });
}

// What counts of a triangular system.
Matrix effective(Matrix a, const TriangularAttrs& attrs) {
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < a.rows; ++j)
      if (attrs.upper ? j < i : j > i) a(i, j) = 0.0;
  return attrs.transpose ? transposed(a) : a;
}

void add_systems(Cases& cases, const Shape& a, const Shape& b) {
  const Shape out =
      broadcast_shapes("test", Shape(a.span().first(static_cast<std::size_t>(a.rank() - 2))),
                       Shape(b.span().first(static_cast<std::size_t>(b.rank() - 2))));
  const auto reference = [out](const Tensors& in, auto change) -> Tensors {
    const std::int64_t n = in[1].shape(-2), k = in[1].shape(-1);
    const auto whole = [&](const Tensor& x) {
      Shape shape = out;
      shape.push_back(x.shape(-2));
      shape.push_back(x.shape(-1));
      return expand(x, shape).contiguous();
    };
    const Matrices left = split(whole(in[0]));
    Matrices right = split(whole(in[1]));
    for (std::size_t i = 0; i < right.size(); ++i) eliminate(change(left[i]), right[i]);
    return {joined(right, whole(in[1]), {n, k})};
  };
  const Tensors inputs{regular(a, 75), random_tensor(b, 76)};
  add(cases, "solve", inputs, {},
      [=](const Tensors& in) { return reference(in, [](const Matrix& m) { return m; }); });
  for (const TriangularAttrs& attrs : {TriangularAttrs{false, false}, TriangularAttrs{true, false},
                                       TriangularAttrs{false, true}, TriangularAttrs{true, true}})
    add(cases, "solve_triangular", inputs, Attrs::of(attrs), [=](const Tensors& in) {
      return reference(in, [=](const Matrix& m) { return effective(m, attrs); });
    });
}

// From the spectrum of a a^T or of a^T a, whichever is smaller.
void singular_values(const Matrix& a, Matrix& u, Matrix& s, Matrix& vh) {
  const bool tall = a.rows > a.columns;
  const Matrix at = transposed(a);
  const Spectrum squares = spectrum(tall ? product(at, a) : product(a, at));
  const int k = std::min(a.rows, a.columns);
  for (int j = 0; j < k; ++j) {
    const int from = k - 1 - j;
    s(0, j) = std::sqrt(squares.values[static_cast<std::size_t>(from)]);
    Matrix side(k, 1);
    for (int i = 0; i < k; ++i) side(i, 0) = squares.vectors(i, from);
    const Matrix other = tall ? product(a, side) : product(at, side);
    for (int i = 0; i < a.rows; ++i) u(i, j) = tall ? other(i, 0) / s(0, j) : side(i, 0);
    for (int i = 0; i < a.columns; ++i) vh(j, i) = tall ? side(i, 0) : other(i, 0) / s(0, j);
  }
  point_upwards(u, &vh);
}

void add_svd(Cases& cases, const Shape& shape) {
  add(cases, "svd", {random_tensor(shape, 77)}, {}, [=](const Tensors& in) -> Tensors {
    const int m = size_at(in[0], -2), n = size_at(in[0], -1), k = std::min(m, n);
    Matrices us, ss, vhs;
    for (const Matrix& a : split(in[0])) {
      Matrix u(m, k), s(1, k), vh(k, n);
      singular_values(a, u, s, vh);
      us.push_back(u);
      ss.push_back(s);
      vhs.push_back(vh);
    }
    return {joined(us, in[0], {m, k}), joined(ss, in[0], {k}), joined(vhs, in[0], {k, n})};
  });
}

// Gram and Schmidt; the columns beyond q's are combinations of it.
void add_qr(Cases& cases, const Shape& shape) {
  add(cases, "qr", {random_tensor(shape, 78)}, {}, [=](const Tensors& in) -> Tensors {
    const int m = size_at(in[0], -2), n = size_at(in[0], -1), k = std::min(m, n);
    Matrices qs, rs;
    for (Matrix a : split(in[0])) {
      Matrix q(m, k), r(k, n);
      for (int j = 0; j < n; ++j) {
        for (int p = 0; p < std::min(j, k); ++p) {
          for (int i = 0; i < m; ++i) r(p, j) += q(i, p) * a(i, j);
          for (int i = 0; i < m; ++i) a(i, j) -= r(p, j) * q(i, p);
        }
        if (j >= k) continue;
        for (int i = 0; i < m; ++i) r(j, j) += a(i, j) * a(i, j);
        r(j, j) = std::sqrt(r(j, j));
        for (int i = 0; i < m; ++i) q(i, j) = a(i, j) / r(j, j);
      }
      qs.push_back(q);
      rs.push_back(r);
    }
    return {joined(qs, in[0], {m, k}), joined(rs, in[0], {k, n})};
  });
  // The gradient of wide matrices is refused.
  cases.back().check_gradient = shape[shape.rank() - 2] >= shape.back();
}

}  // namespace

std::vector<OpCase> linalg_cases() {
  Cases cases;
  for (const Shape& shape : kSquares) {
    add_factors(cases, shape);
    add_inverses(cases, shape);
  }
  add_systems(cases, {3, 3}, {3, 2});
  add_systems(cases, {2, 3, 3}, {2, 3, 1});
  add_systems(cases, {2, 1, 2, 2}, {3, 2, 4});
  add_systems(cases, {1, 1}, {1, 1});
  add_systems(cases, {3, 3}, {3, 0});
  add_systems(cases, {0, 0}, {0, 2});
  for (const Shape& shape : {Shape{3, 3}, Shape{4, 2}, Shape{2, 4}, Shape{2, 3, 2}, Shape{1, 1},
                             Shape{0, 3}, Shape{3, 0}, Shape{0, 2, 2}}) {
    add_svd(cases, shape);
    add_qr(cases, shape);
  }
  return cases;
}

}  // namespace lockstep::testing
