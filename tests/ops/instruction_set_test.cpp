// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/instruction_set.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <dnnl.hpp>

#include "lockstep/base/error.h"
#include "lockstep/graph/compiled_function.h"
#include "lockstep/graph/executable.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"

namespace lockstep {
namespace {

// The tests themselves may run under LOCKSTEP_ISA.
class Wish {
 public:
  explicit Wish(const char* set) {
    if (const char* before = std::getenv("LOCKSTEP_ISA")) before_ = before;
    ::setenv("LOCKSTEP_ISA", set, 1);
  }
  ~Wish() { ::setenv("LOCKSTEP_ISA", before_.c_str(), 1); }
  Wish(const Wish&) = delete;
  Wish& operator=(const Wish&) = delete;

 private:
  std::string before_;
};

TEST(InstructionSet, TheEnvironmentLowersIt) {
  const InstructionSet own = usable_instruction_set(ask_processor());
  EXPECT_EQ((Wish("sse4"), best_instruction_set()), InstructionSet::sse4);
  EXPECT_EQ((Wish("amx"), best_instruction_set()), own) << "not more than the processor has";
  EXPECT_EQ((Wish(""), best_instruction_set()), own);
}

// At a lower set (make test runs this at each) kernels that are chosen later stay in it.
TEST(InstructionSet, AskingWhichOneIsUsedChangesNoKernel) {
  settle_instruction_set();
  const std::size_t chosen = hwy::GetChosenTarget().GetIndex();
  EXPECT_FALSE(instruction_set_in_use().empty());
  EXPECT_EQ(hwy::GetChosenTarget().GetIndex(), chosen);
}

// AMX shown and not usable: libraries would take it.
TEST(InstructionSet, IsLimitedWhereLibrariesWouldTakeMore) {
  ProcessorAnswers answers;
  answers.features = 1U << 12 | 1U << 27 | 1U << 28;
  answers.extended_ebx = 1U << 5 | 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31;
  answers.extended_ecx = 1U << 11;
  answers.more_extended_eax = 1U << 5;
  answers.saved_state = 0xe7;
  EXPECT_FALSE(needs_limit(usable_instruction_set(answers), answers));
  answers.extended_edx = 1U << 22 | 1U << 24 | 1U << 25;
  EXPECT_TRUE(needs_limit(usable_instruction_set(answers), answers));
  EXPECT_TRUE(needs_limit(InstructionSet::sse4, {})) << "oneDNN has AVX between";
}

// Each in a process in which no kernel has run; it ends with 7 when all libraries stay below.
class FirstKernel : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void end_with_what_is_used() {
  constexpr bool kOneTarget = (HWY_TARGETS & (HWY_TARGETS - 1)) == 0;  // instrumented builds
  const std::string used = instruction_set_in_use();
  const bool lowest = (kOneTarget ? used.starts_with("sse4") : used == "sse4") &&
                      dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::sse41;
  if (!lowest) std::fprintf(stderr, "uses %s\n", used.c_str());
  std::exit(lowest ? 7 : 8);
}

[[noreturn]] void limit_and_look() {
  limit_instruction_set(InstructionSet::sse4);
  limit_instruction_set(InstructionSet::sse4);
  limit_instruction_set(InstructionSet::avx2);
  end_with_what_is_used();
}

[[noreturn]] void multiply_and_look() {
  ::setenv("LOCKSTEP_ISA", "sse4", 1);
  matmul(ones({32, 32}), ones({32, 32}));
  end_with_what_is_used();
}

[[noreturn]] void compile_and_look() {
  ::setenv("LOCKSTEP_ISA", "sse4", 1);
  auto product = compile(
      [](const std::vector<Tensor>& x) -> std::vector<Tensor> { return {relu(conv(x[0], x[1]))}; });
  product({Tensor::zeros({1, 16, 8, 8}), Tensor::zeros({16, 16, 3, 3})});
  end_with_what_is_used();
}

[[noreturn]] void update_and_look() {
  ::setenv("LOCKSTEP_ISA", "sse4", 1);
  std::vector<float> weight(64), gradient(64);
  optim::sgd({.learning_rate = 0.1})->update({}, {weight, gradient, {}});
  end_with_what_is_used();
}

TEST_F(FirstKernel, StaysBelowALimit) {
  EXPECT_EXIT(limit_and_look(), ::testing::ExitedWithCode(7), "");
}

TEST_F(FirstKernel, OfAnEagerCallObeysTheEnvironment) {
  EXPECT_EXIT(multiply_and_look(), ::testing::ExitedWithCode(7), "");
}

TEST_F(FirstKernel, OfACompiledFunctionObeysTheEnvironment) {
  EXPECT_EXIT(compile_and_look(), ::testing::ExitedWithCode(7), "");
}

TEST_F(FirstKernel, OfAnUpdateRuleObeysTheEnvironment) {
  EXPECT_EXIT(update_and_look(), ::testing::ExitedWithCode(7), "");
}

[[noreturn]] void wish_for_nonsense() {
  ::setenv("LOCKSTEP_ISA", "avx9", 1);
  for (int i = 0; i < 2; ++i) try {
      add(Tensor::zeros({2}), Tensor::zeros({2}));
    } catch (const InvalidArgument& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
  ::setenv("LOCKSTEP_ISA", "sse4", 1);
  add(Tensor::zeros({2}), Tensor::zeros({2}));
  end_with_what_is_used();
}

TEST_F(FirstKernel, SaysThatTheEnvironmentNamesNoSet) {
  EXPECT_EXIT(wish_for_nonsense(), ::testing::ExitedWithCode(7),
              "instruction set: 'avx9', expected one of sse4.*\n.*'avx9'");
}

[[noreturn]] void lower_a_library_and_look() {
  ::setenv("LOCKSTEP_ISA", "", 1);
  ::setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
  std::fprintf(stderr, "uses %s\n", instruction_set_in_use().c_str());
  std::exit(7);
}

TEST_F(FirstKernel, TellsWhatALibraryWasToldBehindOurBack) {
  const InstructionSet own = usable_instruction_set(ask_processor());
  if (needs_limit(own, ask_processor())) GTEST_SKIP() << "oneDNN is limited by us here";
  EXPECT_EXIT(lower_a_library_and_look(), ::testing::ExitedWithCode(7),
              "uses " + std::string(to_string(own)) + ", oneDNN sse41");
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

TEST_F(FirstKernel, IsTheLastMomentForALimit) {
  if (usable_instruction_set(ask_processor()) == InstructionSet::sse4)
    GTEST_SKIP() << "it is the lowest already";
  EXPECT_EXIT(limit_too_late(), ::testing::ExitedWithCode(7),
              "instruction set: it is too late to use nothing above sse4: kernels have run");
}

}  // namespace
}  // namespace lockstep
