// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/doctor_kernels.h"

#include <gtest/gtest.h>

#include <csignal>

#include "lockstep/base/error.h"
#include "lockstep/ops/instruction_set.h"

namespace lockstep::cli {
namespace {

// A processor that shows more than it has: kernels of one set die, those of another are wrong.
void run_badly(InstructionSet set) {
  if (set == InstructionSet::avx512) std::raise(SIGILL);
  if (set == InstructionSet::avx2) throw InternalError("a convolution is wrong");
}

TEST(DoctorKernels, ThatKillTheirProcessAreNamed) {
  const std::vector<KernelTrial> trials = try_kernels(InstructionSet::avx512_vnni, run_badly);
  ASSERT_EQ(trials.size(), 4U);
  EXPECT_EQ(trials[0].failure, "");
  EXPECT_EQ(trials[1].failure, "computes wrong values");
  EXPECT_EQ(trials[2].failure, "ended by SIGILL");
  EXPECT_EQ(trials[3].failure, "");
}

TEST(DoctorKernels, AreFactsOfTheHost) {
  cluster::HostFacts facts;
  facts.instructions = "what the processor says";
  add_trials(facts, try_kernels(InstructionSet::avx512_vnni, run_badly));
  EXPECT_EQ(facts.instructions, "sse4 avx512_vnni");
  EXPECT_EQ(facts.bad_instructions, "avx2 computes wrong values, avx512 ended by SIGILL");
}

// In a process of its own: this one may have run kernels.
TEST(DoctorKernels, OfThisProcessorWork) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto try_all = [] {
    for (const KernelTrial& trial : try_kernels(best_instruction_set()))
      if (!trial.failure.empty()) std::exit(8);
    std::exit(7);
  };
  EXPECT_EXIT(try_all(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace lockstep::cli
