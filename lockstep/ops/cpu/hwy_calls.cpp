// SPDX-License-Identifier: Apache-2.0
// Highway's functions, as its header declares them: the library, which measures the processor's
// clock when it is loaded, is loaded when a kernel is chosen.
#include <hwy/targets.h>

#include "lockstep/base/lazy_library.h"

#ifndef LOCKSTEP_LIBRARY
#define LOCKSTEP_LIBRARY "libhwy.so.1"
#endif

namespace {

constinit lockstep::LazyLibrary library("highway", LOCKSTEP_LIBRARY);

template <class Function>
using Call = lockstep::LazyCall<Function>;

}  // namespace

namespace hwy {

int64_t SupportedTargets() {
  static constinit Call<int64_t()> call(library, "_ZN3hwy16SupportedTargetsEv");
  return call();
}

void DisableTargets(int64_t targets) {
  static constinit Call<void(int64_t)> call(library, "_ZN3hwy14DisableTargetsEl");
  call(targets);
}

ChosenTarget& GetChosenTarget() {
  static constinit Call<ChosenTarget&()> call(library, "_ZN3hwy15GetChosenTargetEv");
  return call();
}

}  // namespace hwy
