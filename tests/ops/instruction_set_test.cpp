// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/instruction_set.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <dnnl.hpp>

#include "lockstep/base/error.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

TEST(InstructionSet, HasNames) {
  for (InstructionSet set : {InstructionSet::sse4, InstructionSet::avx2, InstructionSet::amx})
    EXPECT_EQ(parse_instruction_set(to_string(set)), set);
  EXPECT_EQ(message_of<InvalidArgument>([] { parse_instruction_set("avx9"); }),
            "instruction set: 'avx9', expected one of sse4, avx2, avx512, avx512_vnni, "
            "avx512_bf16, amx");
}

TEST(InstructionSet, TheEnvironmentLowersIt) {
  const InstructionSet own = best_instruction_set();
  ::setenv("LOCKSTEP_ISA", "sse4", 1);
  EXPECT_EQ(best_instruction_set(), InstructionSet::sse4);
  ::setenv("LOCKSTEP_ISA", "amx", 1);
  EXPECT_EQ(best_instruction_set(), own) << "more than the processor has";
  ::unsetenv("LOCKSTEP_ISA");
}

[[noreturn]] void limit_and_look() {
  limit_instruction_set(InstructionSet::sse4);
  limit_instruction_set(InstructionSet::sse4);
  std::exit(dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::sse41 ? 7 : 8);
}

TEST(InstructionSet, LimitsWhatLibrariesUse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process in which no kernel has run
  EXPECT_EXIT(limit_and_look(), ::testing::ExitedWithCode(7), "");
}

[[noreturn]] void limit_too_late() {
  dnnl::get_effective_cpu_isa();
  try {
    limit_instruction_set(InstructionSet::sse4);
  } catch (const Unsupported& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(7);
  }
  std::exit(8);
}

TEST(InstructionSet, ALimitThatComesTooLateIsSaid) {
  if (best_instruction_set() == InstructionSet::sse4) GTEST_SKIP() << "it is the lowest already";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(limit_too_late(), ::testing::ExitedWithCode(7),
              "instruction set: it is too late to use nothing above sse4: kernels have run");
}

}  // namespace
}  // namespace lockstep
