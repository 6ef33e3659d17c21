// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

// LAPACK's routines by their short names, for float and double. Matrices are column major and
// dense; what is returned is LAPACK's info: 0, or the 1-based place where it came to an end. A
// wrong argument throws InternalError.
namespace lockstep::kernels::lapack {

// Elements of room that a routine asks for at most (syevd: needs at least); LAPACK counts them with
// an int.
std::int64_t syevd_work(std::int64_t n);
std::int64_t gesdd_work(std::int64_t m, std::int64_t n);
std::int64_t geqrf_work(std::int64_t n);
// The room to give to a routine that asked for it with a T, which may have been rounded down.
template <class T>
int work_length(T asked, std::int64_t least);

// The lower Cholesky factor, in place.
template <class T>
int potrf(int n, T* a);
// The LU factors, in place.
template <class T>
int getrf(int n, T* a, int* pivots);
// b becomes a^-1 b, by the factors.
template <class T>
void getrs(int n, int columns, const T* factors, const int* pivots, T* b);
template <class T>
int trtrs(bool upper, bool transpose, int n, int columns, const T* a, T* b);
// Singular values and vectors; a is overwritten, u is [m, k], vh is [k, n] with k = min(m, n).
template <class T>
int gesdd(int m, int n, T* a, T* s, T* u, T* vh);
// r in the upper triangle of a, and the reflectors that make q.
template <class T>
void geqrf(int m, int n, T* a, T* scales);
// The first k columns of q, in place of the reflectors.
template <class T>
void orgqr(int m, int k, T* a, const T* scales);
// Eigenvalues of the lower triangle, ascending; the vectors in place of a.
template <class T>
int syevd(int n, T* a, T* values);

}  // namespace lockstep::kernels::lapack
