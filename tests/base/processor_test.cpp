// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/processor.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

constexpr std::uint64_t kSse = 0x3, kAvx = 0x7, kAvx512 = 0xe7, kTiles = 0x60000;

// Processors by what CPUID says of them; the operating system saves all that they have.
ProcessorAnswers ivy_bridge() {
  ProcessorAnswers answers;
  answers.features = 1U << 27 | 1U << 28;
  answers.saved_state = kAvx;
  return answers;
}
ProcessorAnswers haswell() {
  ProcessorAnswers answers = ivy_bridge();
  answers.features |= 1U << 12;
  answers.extended_ebx = 1U << 5;
  return answers;
}
ProcessorAnswers skylake_server() {
  ProcessorAnswers answers = haswell();
  answers.extended_ebx |= 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31;
  answers.saved_state = kAvx512;
  return answers;
}
ProcessorAnswers cascade_lake() {
  ProcessorAnswers answers = skylake_server();
  answers.extended_ecx = 1U << 11;
  return answers;
}
ProcessorAnswers zen4() {
  ProcessorAnswers answers = cascade_lake();
  answers.more_extended_eax = 1U << 5;
  return answers;
}
ProcessorAnswers sapphire_rapids() {
  ProcessorAnswers answers = zen4();
  answers.extended_edx = 1U << 22 | 1U << 24 | 1U << 25;
  answers.tile_palettes = 1;
  answers.saved_state |= kTiles;
  answers.tiles_permitted = true;
  return answers;
}

TEST(Processor, HasTheBestOfItsInstructionSets) {
  EXPECT_EQ(usable_instruction_set({}), InstructionSet::sse4);
  EXPECT_EQ(usable_instruction_set(ivy_bridge()), InstructionSet::sse4);
  EXPECT_EQ(usable_instruction_set(haswell()), InstructionSet::avx2);
  EXPECT_EQ(usable_instruction_set(skylake_server()), InstructionSet::avx512);
  EXPECT_EQ(usable_instruction_set(cascade_lake()), InstructionSet::avx512_vnni);
  EXPECT_EQ(usable_instruction_set(zen4()), InstructionSet::avx512_bf16);
  EXPECT_EQ(usable_instruction_set(sapphire_rapids()), InstructionSet::amx);
}

TEST(Processor, HasNoAmxWithoutATilePalette) {
  ProcessorAnswers answers = sapphire_rapids();
  answers.tile_palettes = 0;  // as some hypervisors answer, AMX's flags on
  EXPECT_EQ(usable_instruction_set(answers), InstructionSet::avx512_bf16);
  EXPECT_EQ(shown_instruction_set(answers), InstructionSet::amx);
}

TEST(Processor, HasNoAmxWhereTheSystemSavesNoTiles) {
  for (std::uint64_t missing : {1ULL << 17, 1ULL << 18}) {
    ProcessorAnswers answers = sapphire_rapids();
    answers.saved_state &= ~missing;
    EXPECT_EQ(usable_instruction_set(answers), InstructionSet::avx512_bf16);
  }
}

TEST(Processor, HasNoAmxWithoutTheSystemsPermission) {
  ProcessorAnswers answers = sapphire_rapids();
  answers.tiles_permitted = false;
  EXPECT_EQ(usable_instruction_set(answers), InstructionSet::avx512_bf16);
}

TEST(Processor, HasNoVectorsThatTheSystemDoesNotSave) {
  ProcessorAnswers answers = zen4();
  answers.saved_state = kAvx;
  EXPECT_EQ(usable_instruction_set(answers), InstructionSet::avx2);
  answers.saved_state = kSse;
  EXPECT_EQ(usable_instruction_set(answers), InstructionSet::sse4);
}

TEST(Processor, NeedsEachPartOfASet) {
  ProcessorAnswers no_fma = haswell();
  no_fma.features &= ~(1U << 12);
  EXPECT_EQ(usable_instruction_set(no_fma), InstructionSet::sse4);
  ProcessorAnswers foundation_only = skylake_server();
  foundation_only.extended_ebx &= ~(1U << 31);
  EXPECT_EQ(usable_instruction_set(foundation_only), InstructionSet::avx2);
  ProcessorAnswers no_bf16_tiles = sapphire_rapids();
  no_bf16_tiles.extended_edx &= ~(1U << 22);
  EXPECT_EQ(usable_instruction_set(no_bf16_tiles), InstructionSet::avx512_bf16);
}

TEST(Processor, InstructionSetsHaveNames) {
  for (InstructionSet set : instruction_sets())
    EXPECT_EQ(parse_instruction_set(to_string(set)), set);
  EXPECT_EQ(message_of<InvalidArgument>([] { parse_instruction_set("avx9"); }),
            "instruction set: 'avx9', expected one of sse4, avx2, avx512, avx512_vnni, "
            "avx512_bf16, amx");
}

// What gcc knows of the processor at hand is what we know of it.
TEST(Processor, IsAskedAsTheCompilerAsksIt) {
  const InstructionSet own = usable_instruction_set(ask_processor());
  EXPECT_EQ(own >= InstructionSet::avx2,
            __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(own >= InstructionSet::avx512_vnni, __builtin_cpu_supports("avx512vnni") != 0);
  EXPECT_EQ(own >= InstructionSet::avx512_bf16, __builtin_cpu_supports("avx512bf16") != 0);
}

}  // namespace
}  // namespace lockstep
