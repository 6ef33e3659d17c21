// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/lapack.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

// As gfortran compiles them: everything by address, the lengths of strings after all else.
extern "C" {
void spotrf_(const char* uplo, const int* n, float* a, const int* lda, int* info, std::size_t);
void sgetrf_(const int* m, const int* n, float* a, const int* lda, int* pivots, int* info);
void sgetrs_(const char* trans, const int* n, const int* columns, const float* a, const int* lda,
             const int* pivots, float* b, const int* ldb, int* info, std::size_t);
void strtrs_(const char* uplo, const char* trans, const char* diag, const int* n,
             const int* columns, const float* a, const int* lda, float* b, const int* ldb,
             int* info, std::size_t, std::size_t, std::size_t);
void sgesdd_(const char* job, const int* m, const int* n, float* a, const int* lda, float* s,
             float* u, const int* ldu, float* vh, const int* ldvh, float* work, const int* lwork,
             int* iwork, int* info, std::size_t);
void sgeqrf_(const int* m, const int* n, float* a, const int* lda, float* scales, float* work,
             const int* lwork, int* info);
void sorgqr_(const int* m, const int* n, const int* k, float* a, const int* lda,
             const float* scales, float* work, const int* lwork, int* info);
void ssyevd_(const char* job, const char* uplo, const int* n, float* a, const int* lda,
             float* values, float* work, const int* lwork, int* iwork, const int* liwork, int* info,
             std::size_t, std::size_t);
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info, std::size_t);
void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* pivots, int* info);
void dgetrs_(const char* trans, const int* n, const int* columns, const double* a, const int* lda,
             const int* pivots, double* b, const int* ldb, int* info, std::size_t);
void dtrtrs_(const char* uplo, const char* trans, const char* diag, const int* n,
             const int* columns, const double* a, const int* lda, double* b, const int* ldb,
             int* info, std::size_t, std::size_t, std::size_t);
void dgesdd_(const char* job, const int* m, const int* n, double* a, const int* lda, double* s,
             double* u, const int* ldu, double* vh, const int* ldvh, double* work, const int* lwork,
             int* iwork, int* info, std::size_t);
void dgeqrf_(const int* m, const int* n, double* a, const int* lda, double* scales, double* work,
             const int* lwork, int* info);
void dorgqr_(const int* m, const int* n, const int* k, double* a, const int* lda,
             const double* scales, double* work, const int* lwork, int* info);
void dsyevd_(const char* job, const char* uplo, const int* n, double* a, const int* lda,
             double* values, double* work, const int* lwork, int* iwork, const int* liwork,
             int* info, std::size_t, std::size_t);
void xerbla_(const char* routine, const int* argument, std::size_t length);
void concat_strings(std::size_t size, char* target, std::size_t first_size, const char* first,
                    std::size_t second_size, const char* second) __asm__("_gfortran_concat_string");
}

namespace {

// What a routine said of its arguments, until somebody looks.
thread_local std::string refusal;

}  // namespace

// LAPACK and BLAS call it when an argument is wrong, and their own ends the process. An exception
// has no way through Fortran's frames; the routine returns after this.
void xerbla_(const char* routine, const int* argument, std::size_t length) {
  std::string name(routine, length);
  name.erase(name.find_last_not_of(' ') + 1);
  if (refusal.empty()) refusal = fmt::format("{} refuses its argument {}", name, *argument);
}

// Two of Fortran's strings, which have a size and end in blanks, one after the other. It is all
// that LAPACK needs of Fortran's runtime library, which a program would load when it starts.
void concat_strings(std::size_t size, char* target, std::size_t first_size, const char* first,
                    std::size_t second_size, const char* second) {
  std::string both = std::string(first, first_size).append(second, second_size);
  both.resize(size, ' ');
  both.copy(target, size);
}

namespace lockstep::kernels::lapack {
namespace {

// The routines of one type.
template <class T>
struct Routines;

template <>
struct Routines<float> {
  static constexpr auto potrf = spotrf_;
  static constexpr auto getrf = sgetrf_;
  static constexpr auto getrs = sgetrs_;
  static constexpr auto trtrs = strtrs_;
  static constexpr auto gesdd = sgesdd_;
  static constexpr auto geqrf = sgeqrf_;
  static constexpr auto orgqr = sorgqr_;
  static constexpr auto syevd = ssyevd_;
};

template <>
struct Routines<double> {
  static constexpr auto potrf = dpotrf_;
  static constexpr auto getrf = dgetrf_;
  static constexpr auto getrs = dgetrs_;
  static constexpr auto trtrs = dtrtrs_;
  static constexpr auto gesdd = dgesdd_;
  static constexpr auto geqrf = dgeqrf_;
  static constexpr auto orgqr = dorgqr_;
  static constexpr auto syevd = dsyevd_;
};

// BLAS has no info: what it refuses is known by xerbla_ alone.
int checked(int info) {
  if (info >= 0 && refusal.empty()) return info;
  throw InternalError("LAPACK: " + std::exchange(refusal, {}));
}

// LAPACK's block size for these routines, and the most that it puts aside for a block of
// reflectors.
constexpr std::int64_t kBlock = 32, kReflectors = 65 * 64;

// LAPACK wants leading sizes of 1 at least.
int leading(int n) { return std::max(n, 1); }

// A routine is asked how much room it wants, then given it, and `least` at least.
template <class T, class F>
int with_work(F&& run, std::int64_t least = 1) {
  T size{};
  int info = 0, asked = -1;
  run(&size, &asked, &info);
  checked(info);
  int length = work_length(size, least);
  std::vector<T> work(static_cast<std::size_t>(length));
  run(work.data(), &length, &info);
  return checked(info);
}

}  // namespace

std::int64_t syevd_work(std::int64_t n) { return 1 + 6 * n + 2 * n * n; }

std::int64_t gesdd_work(std::int64_t m, std::int64_t n) {
  const std::int64_t k = std::min(m, n);
  return 4 * k * k + 10 * k + kBlock * (m + n) + kReflectors;
}

std::int64_t geqrf_work(std::int64_t n) { return kBlock * n; }

template <class T>
int work_length(T asked, std::int64_t least) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  check(least <= kMost, "inference bounds the work of LAPACK");
  // From 2^31 on the answer has wrapped, or the next one up is no int.
  const T above = std::nextafter(asked, std::numeric_limits<T>::infinity());
  const T bounded = std::clamp(std::ceil(above), T{1}, T{1 << 30} * 2);
  return static_cast<int>(std::clamp(static_cast<std::int64_t>(bounded), least, kMost));
}

template <class T>
int potrf(int n, T* a) {
  const int lead = leading(n);
  int info = 0;
  Routines<T>::potrf("L", &n, a, &lead, &info, 1);
  return checked(info);
}

template <class T>
int getrf(int n, T* a, int* pivots) {
  const int lead = leading(n);
  int info = 0;
  Routines<T>::getrf(&n, &n, a, &lead, pivots, &info);
  return checked(info);
}

template <class T>
void getrs(int n, int columns, const T* factors, const int* pivots, T* b) {
  const int lead = leading(n);
  int info = 0;
  Routines<T>::getrs("N", &n, &columns, factors, &lead, pivots, b, &lead, &info, 1);
  checked(info);
}

template <class T>
int trtrs(bool upper, bool transpose, int n, int columns, const T* a, T* b) {
  const int lead = leading(n);
  int info = 0;
  Routines<T>::trtrs(upper ? "U" : "L", transpose ? "T" : "N", "N", &n, &columns, a, &lead, b,
                     &lead, &info, 1, 1, 1);
  return checked(info);
}

template <class T>
int gesdd(int m, int n, T* a, T* s, T* u, T* vh) {
  const int k = std::min(m, n), lead = leading(m), lead_vh = leading(k);
  std::vector<int> integers(static_cast<std::size_t>(8 * leading(k)));
  return with_work<T>([&](T* work, int* length, int* info) {
    Routines<T>::gesdd("S", &m, &n, a, &lead, s, u, &lead, vh, &lead_vh, work, length,
                       integers.data(), info, 1);
  });
}

template <class T>
void geqrf(int m, int n, T* a, T* scales) {
  const int lead = leading(m);
  with_work<T>([&](T* work, int* length, int* info) {
    Routines<T>::geqrf(&m, &n, a, &lead, scales, work, length, info);
  });
}

template <class T>
void orgqr(int m, int k, T* a, const T* scales) {
  const int lead = leading(m);
  with_work<T>([&](T* work, int* length, int* info) {
    Routines<T>::orgqr(&m, &k, &k, a, &lead, scales, work, length, info);
  });
}

template <class T>
int syevd(int n, T* a, T* values) {
  const int lead = leading(n);
  const int count = 3 + 5 * leading(n);
  std::vector<int> integers(static_cast<std::size_t>(count));
  return with_work<T>(
      [&](T* work, int* length, int* info) {
        Routines<T>::syevd("V", "L", &n, a, &lead, values, work, length, integers.data(), &count,
                           info, 1, 1);
      },
      syevd_work(n));
}

template int work_length(float, std::int64_t);
template int work_length(double, std::int64_t);
template int potrf(int, float*);
template int getrf(int, float*, int*);
template void getrs(int, int, const float*, const int*, float*);
template int trtrs(bool, bool, int, int, const float*, float*);
template int gesdd(int, int, float*, float*, float*, float*);
template void geqrf(int, int, float*, float*);
template void orgqr(int, int, float*, const float*);
template int syevd(int, float*, float*);
template int potrf(int, double*);
template int getrf(int, double*, int*);
template void getrs(int, int, const double*, const int*, double*);
template int trtrs(bool, bool, int, int, const double*, double*);
template int gesdd(int, int, double*, double*, double*, double*);
template void geqrf(int, int, double*, double*);
template void orgqr(int, int, double*, const double*);
template int syevd(int, double*, double*);

}  // namespace lockstep::kernels::lapack
