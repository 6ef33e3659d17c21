// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/processor.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::array kSets{InstructionSet::sse4,        InstructionSet::avx2,
                           InstructionSet::avx512,      InstructionSet::avx512_vnni,
                           InstructionSet::avx512_bf16, InstructionSet::amx};
constexpr std::array<std::string_view, kSets.size()> kNames{"sse4",        "avx2",        "avx512",
                                                            "avx512_vnni", "avx512_bf16", "amx"};

constexpr std::uint32_t bit(int number) { return 1U << number; }

// CPUID leaf 1, ECX.
constexpr std::uint32_t kFma = bit(12), kSavesState = bit(27), kAvx = bit(28);
// Leaf 7, EBX.
constexpr std::uint32_t kAvx2 = bit(5);
constexpr std::uint32_t kAvx512 = bit(16) | bit(17) | bit(30) | bit(31);  // F, DQ, BW, VL
// Leaf 7, ECX.
constexpr std::uint32_t kVnni = bit(11);
// Leaf 7, EDX.
constexpr std::uint32_t kAmx = bit(22) | bit(24) | bit(25);  // BF16, TILE, INT8
// Leaf 7, subleaf 1, EAX.
constexpr std::uint32_t kBf16 = bit(5);

// XCR0.
constexpr std::uint64_t kVectors = bit(1) | bit(2);
constexpr std::uint64_t kLongVectors = kVectors | bit(5) | bit(6) | bit(7);
constexpr int kTileData = 18;
constexpr std::uint64_t kTiles = bit(17) | bit(kTileData);

bool has(std::uint64_t value, std::uint64_t bits) { return (value & bits) == bits; }

bool shows_avx2(const ProcessorAnswers& a) {
  return has(a.features, kAvx | kFma) && has(a.extended_ebx, kAvx2) && has(a.saved_state, kVectors);
}

bool shows_avx512(const ProcessorAnswers& a) {
  return has(a.extended_ebx, kAvx512) && has(a.saved_state, kLongVectors);
}

bool has_tiles(const ProcessorAnswers& a) {
  return a.tile_palettes >= 1 && has(a.saved_state, kTiles) && a.tiles_permitted;
}

std::uint64_t read_xcr0() {
  std::uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

// Registers as large as tiles are for those who ask; libraries ask again, which changes nothing.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

std::span<const InstructionSet> instruction_sets() { return kSets; }

std::string_view to_string(InstructionSet set) { return kNames[static_cast<std::size_t>(set)]; }

InstructionSet parse_instruction_set(std::string_view name) {
  std::string known;
  for (InstructionSet set : kSets) {
    if (to_string(set) == name) return set;
    known += (known.empty() ? "" : ", ") + std::string(to_string(set));
  }
  throw InvalidArgument("instruction set: '{}', expected one of {}", name, known);
}

ProcessorAnswers ask_processor() {
  ProcessorAnswers answers;
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) answers.features = c;
  std::uint32_t last_subleaf = 0;
  if (__get_cpuid_count(7, 0, &last_subleaf, &b, &c, &d) != 0) {
    answers.extended_ebx = b;
    answers.extended_ecx = c;
    answers.extended_edx = d;
  }
  if (last_subleaf >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0)
    answers.more_extended_eax = a;
  if (__get_cpuid_count(0x1D, 0, &a, &b, &c, &d) != 0) answers.tile_palettes = a;
  if (has(answers.features, kSavesState)) answers.saved_state = read_xcr0();
  if (has(answers.extended_edx, kAmx) && has(answers.saved_state, kTiles))
    answers.tiles_permitted = may_use_tiles();
  return answers;
}

InstructionSet shown_instruction_set(const ProcessorAnswers& answers) {
  if (!shows_avx2(answers)) return InstructionSet::sse4;
  if (!shows_avx512(answers)) return InstructionSet::avx2;
  if (!has(answers.extended_ecx, kVnni)) return InstructionSet::avx512;
  if (!has(answers.more_extended_eax, kBf16)) return InstructionSet::avx512_vnni;
  return has(answers.extended_edx, kAmx) ? InstructionSet::amx : InstructionSet::avx512_bf16;
}

InstructionSet usable_instruction_set(const ProcessorAnswers& answers) {
  const InstructionSet shown = shown_instruction_set(answers);
  return shown == InstructionSet::amx && !has_tiles(answers) ? InstructionSet::avx512_bf16 : shown;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "an unknown processor";
}

}  // namespace lockstep
