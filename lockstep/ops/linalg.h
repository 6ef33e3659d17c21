// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/tensor.h"

// Linear algebra on the matrices in the last two axes; axes before them are a batch. LAPACK does
// the work, on one thread. A matrix that has NaN or infinite elements gives NaN.
namespace lockstep {

// The lower triangle l with l l^T = a, of a's symmetric part. InvalidArgument where it is not
// positive definite.
Tensor cholesky(const Tensor& a);
// x with a x = b: b is [..., n, k], or has one axis less than a: vectors. Batches broadcast.
// InvalidArgument where a is singular.
Tensor solve(const Tensor& a, const Tensor& b);
// As solve, where only the lower (or upper) triangle of a counts; with `transpose`, a^T x = b.
Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper = false,
                        bool transpose = false);
// InvalidArgument where a is singular.
Tensor inverse(const Tensor& a);
Tensor det(const Tensor& a);
// Of each element, the determinant without its row and column, with the sign of its place: the
// gradient of det, of singular matrices too.
Tensor cofactors(const Tensor& a);

struct SignedLog {
  Tensor sign;    // -1, 0 or 1
  Tensor logabs;  // -inf where the determinant is 0
};
SignedLog slogdet(const Tensor& a);

// a = u diag(s) vh with s in descending order, of m x n matrices with k = min(m, n): u is [m, k],
// vh is [k, n]. In each column of u the element of the largest magnitude is positive. The gradient
// of u and vh needs singular values that differ and are not 0; that of s alone does not.
struct Svd {
  Tensor u, s, vh;
};
Svd svd(const Tensor& a);

// a = q r: q [m, k] has orthonormal columns, r [k, n] is upper triangular, its diagonal 0 or more.
// The gradient needs m >= n and a of full rank.
struct Qr {
  Tensor q, r;
};
Qr qr(const Tensor& a);

// Of a's symmetric part, in ascending order; vectors are columns, the element of the largest
// magnitude positive. The gradient of vectors needs values that differ.
struct Eigen {
  Tensor values, vectors;
};
Eigen eigh(const Tensor& a);

}  // namespace lockstep
