// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/instruction_set.h"

#include <cpuid.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dnnl.hpp>
#include <fstream>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

struct Level {
  InstructionSet set;
  std::string_view name;
  dnnl::cpu_isa of_dnnl;
  std::int64_t above;  // Highway's targets that need more
};

constexpr std::int64_t kNone = 0, kDeep = HWY_AVX3_DL, kWide = kDeep | HWY_AVX3,
                       kLong = kWide | HWY_AVX2;

constexpr std::array<Level, 6> kLevels{{
    {InstructionSet::sse4, "sse4", dnnl::cpu_isa::sse41, kLong},
    {InstructionSet::avx2, "avx2", dnnl::cpu_isa::avx2, kWide},
    {InstructionSet::avx512, "avx512", dnnl::cpu_isa::avx512_core, kDeep},
    {InstructionSet::avx512_vnni, "avx512_vnni", dnnl::cpu_isa::avx512_core_vnni, kNone},
    {InstructionSet::avx512_bf16, "avx512_bf16", dnnl::cpu_isa::avx512_core_bf16, kNone},
    {InstructionSet::amx, "amx", dnnl::cpu_isa::avx512_core_amx, kNone},
}};

const Level& level(InstructionSet set) { return kLevels[static_cast<std::size_t>(set)]; }

bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTile = 1U << 24, kInt8 = 1U << 25, kBf16 = 1U << 22;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTile) && (d & kInt8) && (d & kBf16);
}

InstructionSet processors_best() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return InstructionSet::sse4;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return InstructionSet::avx2;
  if (!__builtin_cpu_supports("avx512vnni")) return InstructionSet::avx512;
  if (!__builtin_cpu_supports("avx512bf16")) return InstructionSet::avx512_vnni;
  return has_amx() ? InstructionSet::amx : InstructionSet::avx512_bf16;
}

}  // namespace

std::string_view to_string(InstructionSet set) { return level(set).name; }

InstructionSet parse_instruction_set(std::string_view name) {
  std::string known;
  for (const Level& one : kLevels) {
    if (one.name == name) return one.set;
    known += (known.empty() ? "" : ", ") + std::string(one.name);
  }
  throw InvalidArgument("instruction set: '{}', expected one of {}", name, known);
}

InstructionSet best_instruction_set() {
  const char* wish = std::getenv("LOCKSTEP_ISA");
  if (wish == nullptr || *wish == '\0') return processors_best();
  return std::min(processors_best(), parse_instruction_set(wish));
}

void limit_instruction_set(InstructionSet set) {
  if (set >= processors_best()) return;
  if (dnnl::set_max_cpu_isa(level(set).of_dnnl) != dnnl::status::success &&
      dnnl::get_effective_cpu_isa() != level(set).of_dnnl)
    throw Unsupported("instruction set: it is too late to use nothing above {}: kernels have run",
                      to_string(set));
  hwy::DisableTargets(level(set).above);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "an unknown processor";
}

}  // namespace lockstep
