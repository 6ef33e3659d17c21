// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/float_mode.h"

namespace lockstep {
namespace {

#if defined(__x86_64__)
constexpr std::uint64_t kFlush = 0x8040;  // of results (FTZ) and of operands (DAZ)
#elif defined(__aarch64__)
constexpr std::uint64_t kFlush = std::uint64_t{1} << 24;  // FZ: both
#else
constexpr std::uint64_t kFlush = 0;
#endif

}  // namespace

std::uint64_t float_mode() {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr();
#elif defined(__aarch64__)
  std::uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
#else
  return 0;
#endif
}

void set_float_mode([[maybe_unused]] std::uint64_t mode) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(mode));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(mode));
#endif
}

FlushSubnormals::FlushSubnormals() : before_(float_mode()) { set_float_mode(before_ | kFlush); }

}  // namespace lockstep
