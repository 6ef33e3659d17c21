// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/linalg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/autograd/autograd.h"
#include "lockstep/ops/cpu/lapack.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"
#include "tests/message.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Doubles = std::vector<double>;

Tensor matrix(const Doubles& values) {
  const auto n = static_cast<std::int64_t>(std::sqrt(values.size()));
  return Tensor::from(values, {n, n});
}

void expect_near(const Tensor& a, const Tensor& b, double tolerance) {
  ASSERT_EQ(a.shape(), b.shape());
  const Doubles x = a.to_vector<double>(), y = b.to_vector<double>();
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], tolerance) << i;
}

bool all_nan(const Tensor& x) {
  for (double value : x.to_vector<double>())
    if (!std::isnan(value)) return false;
  return true;
}

// Larger than any block that LAPACK works in.
TEST(Linalg, DecompositionsOfLargeMatricesMultiplyBackToThem) {
  for (DType dtype : {DType::float32, DType::float64}) {
    const double tolerance = dtype == DType::float32 ? 2e-4 : 1e-11;
    const Tensor a = cast(random_tensor({2, 90, 70}, 81), dtype);
    const auto [u, s, vh] = svd(a);
    expect_near(matmul(u * expand_dims(s, 1), vh), a, tolerance);
    const auto [q, r] = qr(a);
    expect_near(matmul(q, r), a, tolerance);
    expect_near(matmul(q, q, true), expand(eye(70, -1, 0, dtype), {2, 70, 70}), tolerance);
    const Tensor square = matmul(a, a, true) + eye(70, -1, 0, dtype);
    const Tensor l = cholesky(square);
    expect_near(matmul(l, l, false, true), square, 30 * tolerance);
    const auto [values, vectors] = eigh(square);
    expect_near(matmul(vectors * expand_dims(values, 1), vectors, false, true), square,
                30 * tolerance);
    expect_near(matmul(square, inverse(square)), expand(eye(70, -1, 0, dtype), {2, 70, 70}),
                30 * tolerance);
  }
}

TEST(Linalg, VectorsAreSolvedAsSingleColumns) {
  const Tensor a = matrix({2, 0, 0, 4});
  EXPECT_EQ(solve(a, Tensor::from(Doubles{2, 2}, {2})).to_vector<double>(), (Doubles{1, 0.5}));
  const Tensor batch = expand(a, {3, 2, 2});
  EXPECT_EQ(solve(batch, Tensor::full({3, 2}, 2, DType::float64)).shape(), (Shape{3, 2}));
  EXPECT_EQ(solve(batch, Tensor::full({2, 5}, 2, DType::float64)).shape(), (Shape{3, 2, 5}));
  EXPECT_EQ(
      solve_triangular(matrix({2, 9, 0, 4}), Tensor::from(Doubles{2, 4}, {2})).to_vector<double>(),
      (Doubles{1, 1}));
}

TEST(Linalg, ASingularMatrixIsNamed) {
  const Tensor singular =
      concat({reshape(matrix({1, 0, 0, 1}), {1, 2, 2}), reshape(matrix({1, 2, 2, 4}), {1, 2, 2})});
  EXPECT_EQ(message_of([&] { inverse(singular); }), "inverse: matrix 1 is singular");
  EXPECT_EQ(message_of([&] {
              solve(singular, Tensor::zeros({2, 1}, DType::float64));
            }),
            "solve: matrix 1 is singular");
  EXPECT_EQ(message_of([] {
              solve_triangular(matrix({1, 0, 3, 0}), Tensor::zeros({2, 1}, DType::float64));
            }),
            "solve_triangular: matrix 0 is singular: element 1 of its diagonal is 0");
  EXPECT_EQ(det(singular).to_vector<double>(), (Doubles{1, 0}));
  const auto [sign, logabs] = slogdet(singular);
  EXPECT_EQ(sign.to_vector<double>(), (Doubles{1, 0}));
  EXPECT_EQ(logabs.to_vector<double>(), (Doubles{0, -std::numeric_limits<double>::infinity()}));
}

TEST(Linalg, TheDeterminantOfASingularMatrixHasAGradient) {
  for (const Doubles& values : {Doubles{1, 2, 2, 4}, Doubles{0, 0, 0, 0}, Doubles{0, 1, 0, 0}}) {
    const Tensor a = matrix(values);
    autograd::attach_grad(a);
    {
      const autograd::RecordScope record;
      autograd::backward(det(a));
    }
    const Doubles found = autograd::gradient(a).to_vector<double>();
    const Doubles wanted = {values[3], -values[2], -values[1], values[0]};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(found[i], wanted[i], 1e-12) << i;
  }
  const Tensor one = Tensor::zeros({1, 1}, DType::float64);
  EXPECT_EQ(cofactors(one).to_vector<double>(), (Doubles{1}));
  // Of rank 1 all minors of two rows are 0.
  const Tensor rank_one = Tensor::from(Doubles{1, 2, 3, 2, 4, 6, 3, 6, 9}, {3, 3});
  for (const double value : cofactors(rank_one).to_vector<double>()) EXPECT_NEAR(value, 0.0, 1e-12);
}

TEST(Linalg, WhatIsNotPositiveDefiniteIsNamed) {
  EXPECT_EQ(message_of([] {
              cholesky(matrix({1, 2, 2, 1}));
            }),
            "cholesky: matrix 0 is not positive definite: its leading minor of order 2 is not");
}

TEST(Linalg, TheSymmetricPartCounts) {
  const Tensor skewed = matrix({2, 3, -1, 5}), plain = matrix({2, 1, 1, 5});
  EXPECT_EQ(cholesky(skewed).to_vector<double>(), cholesky(plain).to_vector<double>());
  EXPECT_EQ(eigh(skewed).values.to_vector<double>(), eigh(plain).values.to_vector<double>());
}

TEST(Linalg, AMatrixThatIsNotFiniteGivesNanAndLeavesTheOthersAlone) {
  for (double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const Tensor a = concat(
        {reshape(matrix({1, bad, 0, 1}), {1, 2, 2}), reshape(matrix({4, 0, 0, 1}), {1, 2, 2})});
    const Tensor b = Tensor::full({2, 1}, 1, DType::float64);
    for (const Tensor& y :
         {cholesky(a), inverse(a), det(a), slogdet(a).logabs, svd(a).u, svd(a).s, qr(a).r,
          eigh(a).values, eigh(a).vectors, solve(a, b), solve_triangular(a, b, true)}) {
      EXPECT_TRUE(all_nan(slice_axis(y, 0, 0, 1)));
      EXPECT_EQ(sum(cast(equal(y, y), DType::int64)).item(), y.numel() / 2);
    }
  }
}

TEST(Linalg, TheTriangleThatDoesNotCountMayHoldNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor b = Tensor::from(Doubles{2, 4}, {2, 1});
  const Tensor lower = matrix({2, nan, 0, 4}), upper = matrix({2, 0, nan, 4});
  EXPECT_EQ(solve_triangular(lower, b).to_vector<double>(), (Doubles{1, 1}));
  EXPECT_EQ(solve_triangular(upper, b, true).to_vector<double>(), (Doubles{1, 1}));
  EXPECT_TRUE(all_nan(solve_triangular(lower, b, true)));
  EXPECT_TRUE(all_nan(solve_triangular(upper, b)));
}

// A float near 2^24 has no odd numbers: 1 + 6n + 2n^2 of this n is rounded down.
TEST(Linalg, RoomThatAFloatAsksForIsRoundedUp) {
  const std::int64_t n = 2897, needed = kernels::lapack::syevd_work(n);
  EXPECT_EQ(needed, 16802601);
  EXPECT_LT(static_cast<std::int64_t>(static_cast<float>(needed)), needed);
  EXPECT_GE(kernels::lapack::work_length(static_cast<float>(needed), 1), needed);
  EXPECT_GE(kernels::lapack::work_length(1.0F, needed), needed);
  EXPECT_EQ(kernels::lapack::work_length(4e9F, 1), std::numeric_limits<int>::max());
}

TEST(Linalg, AWrongArgumentOfLapackThrows) {
  double one = 1;
  EXPECT_EQ(message_of<InternalError>([&] { kernels::lapack::potrf(-1, &one); }),
            "LAPACK: DPOTRF refuses its argument 2");
  EXPECT_EQ(kernels::lapack::potrf(1, &one), 0);
}

TEST(Linalg, MatricesThatLapackCannotCountTheRoomForAreRefused) {
  const auto huge = [](std::int64_t n) {
    return expand(Tensor::zeros({1, 1}, DType::float32), {n, n});
  };
  EXPECT_EQ(message_of([&] { eigh(huge(32767)); }),
            "eigh: a has shape [32767, 32767]: LAPACK would need room for 2147549181 elements, and "
            "can have 2147483647");
  EXPECT_NE(message_of([&] { svd(huge(23170)); }).find("svd: a has shape [23170, 23170]: LAPACK"),
            std::string::npos);
}

TEST(Linalg, ShapesMustBelongTogether) {
  EXPECT_EQ(message_of([] {
              det(Tensor::zeros({2, 3}));
            }),
            "det: a has shape [2, 3], expected square matrices");
  EXPECT_EQ(message_of([] { svd(Tensor::zeros({3})); }),
            "svd: a has shape [3], expected matrices in its last two axes");
  EXPECT_EQ(message_of([] {
              solve(Tensor::zeros({2, 2}), Tensor::zeros({3, 1}));
            }),
            "solve: a has shape [2, 2], b has shape [3, 1]: 2 and 3 rows");
}

// Singular values that are equal spoil the gradient of the vectors, not their own.
TEST(Linalg, SingularValuesAloneHaveAGradientWhereTheyAreEqual) {
  const Tensor a = matrix({2, 0, 0, 2});
  autograd::attach_grad(a);
  {
    const autograd::RecordScope record;
    autograd::backward(sum(svd(a).s));
  }
  EXPECT_EQ(autograd::gradient(a).to_vector<double>(), (Doubles{1, 0, 0, 1}));
}

TEST(Linalg, TheGradientOfAWideQrIsRefused) {
  const Tensor a = random_tensor({2, 3}, 82);
  autograd::attach_grad(a);
  const autograd::RecordScope record;
  const Tensor loss = sum(qr(a).r);
  EXPECT_EQ(message_of<Unsupported>([&] { autograd::backward(loss); }),
            "qr: the gradient needs as many rows as columns at least, a has shape [2, 3]");
}

}  // namespace
}  // namespace lockstep::testing
