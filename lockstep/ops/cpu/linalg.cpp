// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/linalg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lockstep/ops/cpu/lapack.h"
#include "lockstep/ops/linalg_attrs.h"

namespace lockstep::kernels {
namespace {

// A matrix as LAPACK has it: column major.
template <class T>
struct Columns {
  int rows, columns;
  std::vector<T> values;

  Columns(int m, int n)
      : rows(m), columns(n), values(static_cast<std::size_t>(m) * static_cast<std::size_t>(n)) {}
  // Of a row-major one.
  Columns(const T* from, int m, int n) : Columns(m, n) {
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) (*this)(i, j) = *from++;
  }

  T* data() { return values.data(); }
  T& operator()(int i, int j) {
    return values[static_cast<std::size_t>(j) * static_cast<std::size_t>(rows) +
                  static_cast<std::size_t>(i)];
  }
  void store(T* to) {
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) *to++ = (*this)(i, j);
  }
  void negate_column(int j) {
    for (int i = 0; i < rows; ++i) (*this)(i, j) = -(*this)(i, j);
  }
  void negate_row(int i) {
    for (int j = 0; j < columns; ++j) (*this)(i, j) = -(*this)(i, j);
  }
  // Whether the element of the largest magnitude is below 0, the first of equals.
  bool is_column_negative(int j) {
    T largest{};
    for (int i = 0; i < rows; ++i)
      if (std::fabs((*this)(i, j)) > std::fabs(largest)) largest = (*this)(i, j);
    return largest < 0;
  }
};

// The matrices of an operand: of its last two axes.
struct Matrices {
  int rows, columns;
  std::int64_t count;  // without those of no elements

  explicit Matrices(const Shape& shape) {
    const std::int64_t m = shape[shape.rank() - 2], n = shape[shape.rank() - 1];
    check(m <= std::numeric_limits<int>::max() && n <= std::numeric_limits<int>::max(),
          "inference bounds the sizes of matrices");
    rows = static_cast<int>(m);
    columns = static_cast<int>(n);
    count = shape.numel() == 0 ? 0 : shape.numel() / (m * n);
  }
  std::int64_t size() const { return std::int64_t{rows} * columns; }
};

template <class T>
bool all_finite(const T* values, std::int64_t count) {
  return std::all_of(values, values + count, [](T x) { return std::isfinite(x); });
}

template <class T>
T* place(const TensorView& out, std::int64_t matrix, std::int64_t size) {
  return out.as<T>() + matrix * size;
}

// How many elements of an output belong to one matrix.
std::int64_t size_of_each(const TensorView& out, std::int64_t count) {
  return out.numel() / std::max<std::int64_t>(count, 1);
}

// Calls run(matrix, number) for each matrix of input 0; the outputs of one that is not finite are
// NaN.
template <class T, class F>
void for_each_matrix(const KernelCall& call, F&& run) {
  const TensorView& a = call.inputs[0];
  const Matrices all(a.shape);
  for (std::int64_t i = 0; i < all.count; ++i) {
    const T* from = a.as<T>() + i * all.size();
    if (all_finite(from, all.size())) {
      run(Columns<T>(from, all.rows, all.columns), i);
      continue;
    }
    for (const TensorView& out : call.outputs) {
      const std::int64_t size = size_of_each(out, all.count);
      std::fill_n(place<T>(out, i, size), size, std::numeric_limits<T>::quiet_NaN());
    }
  }
}

template <class T>
T* output_of(const KernelCall& call, std::size_t output, std::int64_t matrix) {
  const Matrices all(call.inputs[0].shape);
  const TensorView& out = call.outputs[output];
  return place<T>(out, matrix, size_of_each(out, all.count));
}

template <class T>
void make_symmetric(Columns<T>& a) {
  for (int i = 0; i < a.rows; ++i)
    for (int j = 0; j < i; ++j) a(i, j) = a(j, i) = a(i, j) / 2 + a(j, i) / 2;
}

template <class T>
void run_cholesky(const KernelCall& call) {
  for_each_matrix<T>(call, [&](Columns<T> a, std::int64_t number) {
    make_symmetric(a);
    if (const int order = lapack::potrf(a.rows, a.data()))
      throw InvalidArgument(
          "cholesky: matrix {} is not positive definite: its leading minor of order {} is not",
          number, order);
    for (int i = 0; i < a.rows; ++i)
      for (int j = i + 1; j < a.columns; ++j) a(i, j) = 0;
    a.store(output_of<T>(call, 0, number));
  });
}

// The LU factors of a matrix.
template <class T>
struct Factors {
  Columns<T> lu;
  std::vector<int> pivots;
  bool singular;

  explicit Factors(Columns<T> a) : lu(std::move(a)), pivots(static_cast<std::size_t>(lu.rows)) {
    singular = lapack::getrf(lu.rows, lu.data(), pivots.data()) != 0;
  }
  void check_regular(const char* op, std::int64_t number) const {
    if (singular) throw InvalidArgument("{}: matrix {} is singular", op, number);
  }
  void solve(Columns<T>& b) {
    lapack::getrs(lu.rows, b.columns, lu.data(), pivots.data(), b.data());
  }
  bool is_negative() {
    bool negative = false;
    for (int i = 0; i < lu.rows; ++i)
      negative ^= (lu(i, i) < 0) != (pivots[static_cast<std::size_t>(i)] != i + 1);
    return negative;
  }
  double determinant() {
    double product = is_negative() ? -1.0 : 1.0;
    for (int i = 0; i < lu.rows; ++i) product *= std::fabs(static_cast<double>(lu(i, i)));
    return product;
  }
};

template <class T>
void run_inverse(const KernelCall& call) {
  for_each_matrix<T>(call, [&](Columns<T> a, std::int64_t number) {
    Columns<T> inverse(a.rows, a.rows);
    for (int i = 0; i < a.rows; ++i) inverse(i, i) = 1;
    Factors<T> factors(std::move(a));
    factors.check_regular("inverse", number);
    factors.solve(inverse);
    inverse.store(output_of<T>(call, 0, number));
  });
}

// The determinant of a matrix of no elements is 1.
template <class T>
void run_det(const KernelCall& call) {
  std::fill_n(call.outputs[0].as<T>(), call.outputs[0].numel(), T{1});
  for_each_matrix<T>(call, [&](Columns<T> a, std::int64_t number) {
    *output_of<T>(call, 0, number) = static_cast<T>(Factors<T>(std::move(a)).determinant());
  });
}

// Of a regular matrix its determinant times its inverse, transposed. Of a singular one, by its
// singular values: det(u) det(vh) u p vh, where p has on its diagonal the product of all values but
// the one of that place.
template <class T>
Columns<T> cofactors_of_singular(Columns<T> a, std::int64_t number) {
  const int n = a.rows;
  Columns<T> u(n, n), vh(n, n), made(n, n);
  std::vector<T> values(static_cast<std::size_t>(n));
  if (lapack::gesdd(n, n, a.data(), values.data(), u.data(), vh.data()) != 0)
    throw InvalidArgument("cofactors: the singular values of matrix {} do not converge", number);
  const bool turned = Factors<T>(u).is_negative() != Factors<T>(vh).is_negative();
  for (int k = 0; k < n; ++k) {
    double product = turned ? -1.0 : 1.0;
    for (int other = 0; other < n; ++other)
      if (other != k) product *= static_cast<double>(values[static_cast<std::size_t>(other)]);
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < n; ++i) made(i, j) += static_cast<T>(product * u(i, k) * vh(k, j));
  }
  return made;
}

template <class T>
void run_cofactors(const KernelCall& call) {
  for_each_matrix<T>(call, [&](Columns<T> a, std::int64_t number) {
    const int n = a.rows;
    Columns<T> made(n, n);
    Factors<T> factors(a);
    if (factors.singular) {
      made = cofactors_of_singular(std::move(a), number);
    } else {
      Columns<T> inverse(n, n);
      for (int i = 0; i < n; ++i) inverse(i, i) = 1;
      factors.solve(inverse);
      const double det = factors.determinant();
      for (int j = 0; j < n; ++j)
        for (int i = 0; i < n; ++i) made(i, j) = static_cast<T>(det * inverse(j, i));
    }
    made.store(output_of<T>(call, 0, number));
  });
}

template <class T>
void run_slogdet(const KernelCall& call) {
  std::fill_n(call.outputs[0].as<T>(), call.outputs[0].numel(), T{1});
  std::fill_n(call.outputs[1].as<T>(), call.outputs[1].numel(), T{0});
  for_each_matrix<T>(call, [&](Columns<T> a, std::int64_t number) {
    Factors<T> factors(std::move(a));
    double sum = 0.0;
    for (int i = 0; i < factors.lu.rows; ++i)
      sum += std::log(std::fabs(static_cast<double>(factors.lu(i, i))));
    const T sign = factors.is_negative() ? T{-1} : T{1};
    *output_of<T>(call, 0, number) = factors.singular ? T{0} : sign;
    *output_of<T>(call, 1, number) = static_cast<T>(sum);
  });
}

// Calls run(a, x, number) with each pair that batches broadcast to; the result is NaN where a is
// not finite, as is_finite(values) says.
template <class T, class Finite, class F>
void for_each_pair(const KernelCall& call, Finite&& is_finite, F&& run) {
  const TensorView &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  const Matrices left(a.shape), right(b.shape);
  if (out.numel() == 0) return;
  const auto lead = [](const Dims& dims) {
    return Dims(dims.span().first(static_cast<std::size_t>(dims.rank() - 2)));
  };
  const Shape batch = lead(out.shape);
  const Strides a_steps = broadcast_strides(lead(a.shape), lead(a.strides), batch);
  const Strides b_steps = broadcast_strides(lead(b.shape), lead(b.strides), batch);
  for (std::int64_t number = 0; number < batch.numel(); ++number) {
    std::int64_t a_offset = 0, b_offset = 0, rest = number;
    for (int axis = batch.rank() - 1; axis >= 0; rest /= batch[axis--]) {
      a_offset += rest % batch[axis] * a_steps[axis];
      b_offset += rest % batch[axis] * b_steps[axis];
    }
    const T* matrix = a.as<T>() + a_offset;
    T* to = out.as<T>() + number * right.size();
    if (!is_finite(matrix)) {
      std::fill_n(to, right.size(), std::numeric_limits<T>::quiet_NaN());
      continue;
    }
    Columns<T> x(b.as<T>() + b_offset, right.rows, right.columns);
    run(Columns<T>(matrix, left.rows, left.columns), x, number);
    x.store(to);
  }
}

template <class T>
void run_solve(const KernelCall& call) {
  const std::int64_t size = Matrices(call.inputs[0].shape).size();
  const auto is_finite = [&](const T* a) { return all_finite(a, size); };
  for_each_pair<T>(call, is_finite, [](Columns<T> a, Columns<T>& x, std::int64_t number) {
    Factors<T> factors(std::move(a));
    factors.check_regular("solve", number);
    factors.solve(x);
  });
}

// The other triangle may hold anything.
template <class T>
bool is_triangle_finite(const T* a, std::int64_t n, bool upper) {
  for (std::int64_t i = 0; i < n; ++i)
    if (!(upper ? all_finite(a + i * n + i, n - i) : all_finite(a + i * n, i + 1))) return false;
  return true;
}

template <class T>
void run_solve_triangular(const KernelCall& call) {
  const auto& attrs = call.attrs.as<TriangularAttrs>();
  const std::int64_t n = call.inputs[0].shape.back();
  const auto is_finite = [&](const T* a) { return is_triangle_finite(a, n, attrs.upper); };
  for_each_pair<T>(call, is_finite, [&](Columns<T> a, Columns<T>& x, std::int64_t number) {
    if (const int zero =
            lapack::trtrs(attrs.upper, attrs.transpose, a.rows, x.columns, a.data(), x.data()))
      throw InvalidArgument(
          "solve_triangular: matrix {} is singular: element {} of its diagonal "
          "is 0",
          number, zero - 1);
  });
}

template <class T>
void run_svd(const KernelCall& call) {
  for_each_matrix<T>(call, [&](Columns<T> a, std::int64_t number) {
    const int k = std::min(a.rows, a.columns);
    Columns<T> u(a.rows, k), vh(k, a.columns);
    if (lapack::gesdd(a.rows, a.columns, a.data(), output_of<T>(call, 1, number), u.data(),
                      vh.data()) != 0)
      throw InvalidArgument("svd: the singular values of matrix {} do not converge", number);
    for (int j = 0; j < k; ++j)
      if (u.is_column_negative(j)) {
        u.negate_column(j);
        vh.negate_row(j);
      }
    u.store(output_of<T>(call, 0, number));
    vh.store(output_of<T>(call, 2, number));
  });
}

template <class T>
void run_qr(const KernelCall& call) {
  for_each_matrix<T>(call, [&](Columns<T> a, std::int64_t number) {
    const int m = a.rows, n = a.columns, k = std::min(m, n);
    std::vector<T> scales(static_cast<std::size_t>(k));
    lapack::geqrf(m, n, a.data(), scales.data());
    Columns<T> q(m, k), r(k, n);
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < std::min(k, j + 1); ++i) r(i, j) = a(i, j);
    std::copy_n(a.data(), q.values.size(), q.data());
    lapack::orgqr(m, k, q.data(), scales.data());
    for (int i = 0; i < k; ++i)
      if (r(i, i) < 0) {
        r.negate_row(i);
        q.negate_column(i);
      }
    q.store(output_of<T>(call, 0, number));
    r.store(output_of<T>(call, 1, number));
  });
}

template <class T>
void run_eigh(const KernelCall& call) {
  for_each_matrix<T>(call, [&](Columns<T> a, std::int64_t number) {
    make_symmetric(a);
    if (lapack::syevd(a.rows, a.data(), output_of<T>(call, 0, number)) != 0)
      throw InvalidArgument("eigh: the eigenvalues of matrix {} do not converge", number);
    for (int j = 0; j < a.columns; ++j)
      if (a.is_column_negative(j)) a.negate_column(j);
    a.store(output_of<T>(call, 1, number));
  });
}

template <DirectKernel single, DirectKernel wide>
constexpr KernelCandidate kLapack[] = {
    {.name = "lapack", .dtypes = {DType::float32}, .direct = single},
    {.name = "lapack", .dtypes = {DType::float64}, .direct = wide}};

}  // namespace

std::span<const KernelCandidate> cholesky_kernels() {
  return kLapack<run_cholesky<float>, run_cholesky<double>>;
}
std::span<const KernelCandidate> solve_kernels() {
  return kLapack<run_solve<float>, run_solve<double>>;
}
std::span<const KernelCandidate> solve_triangular_kernels() {
  return kLapack<run_solve_triangular<float>, run_solve_triangular<double>>;
}
std::span<const KernelCandidate> inverse_kernels() {
  return kLapack<run_inverse<float>, run_inverse<double>>;
}
std::span<const KernelCandidate> det_kernels() { return kLapack<run_det<float>, run_det<double>>; }
std::span<const KernelCandidate> cofactors_kernels() {
  return kLapack<run_cofactors<float>, run_cofactors<double>>;
}
std::span<const KernelCandidate> slogdet_kernels() {
  return kLapack<run_slogdet<float>, run_slogdet<double>>;
}
std::span<const KernelCandidate> svd_kernels() { return kLapack<run_svd<float>, run_svd<double>>; }
std::span<const KernelCandidate> qr_kernels() { return kLapack<run_qr<float>, run_qr<double>>; }
std::span<const KernelCandidate> eigh_kernels() {
  return kLapack<run_eigh<float>, run_eigh<double>>;
}

}  // namespace lockstep::kernels
