// SPDX-License-Identifier: Apache-2.0
// OpenMP's functions, as GCC's header declares them: the library is oneDNN's, and is loaded when a
// kernel is made, as oneDNN is.
#include <omp.h>

#include "lockstep/base/lazy_library.h"

namespace {

constinit lockstep::LazyLibrary library("OpenMP", "libgomp.so.1");

template <class Function>
using Call = lockstep::LazyCall<Function>;

}  // namespace

extern "C" {

int omp_get_max_threads() noexcept {
  static constinit Call<int()> call(library, "omp_get_max_threads");
  return call();
}

void omp_set_num_threads(int threads) noexcept {
  static constinit Call<void(int)> call(library, "omp_set_num_threads");
  call(threads);
}

}  // extern "C"
