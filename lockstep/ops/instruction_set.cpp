// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/instruction_set.h"

#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <dnnl.hpp>
#include <mutex>
#include <optional>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// What a set is to the libraries.
struct Level {
  dnnl::cpu_isa of_dnnl;
  std::int64_t target;  // Highway's best in it
  std::int64_t above;   // Highway's that need more
};

constexpr std::int64_t kNone = 0, kDeep = HWY_AVX3_DL, kWide = kDeep | HWY_AVX3,
                       kLong = kWide | HWY_AVX2;

constexpr std::array<Level, 6> kLevels{{
    {dnnl::cpu_isa::sse41, HWY_SSE4, kLong},
    {dnnl::cpu_isa::avx2, HWY_AVX2, kWide},
    {dnnl::cpu_isa::avx512_core, HWY_AVX3, kDeep},
    {dnnl::cpu_isa::avx512_core_vnni, HWY_AVX3, kNone},
    {dnnl::cpu_isa::avx512_core_bf16, HWY_AVX3, kNone},
    {dnnl::cpu_isa::avx512_core_amx, HWY_AVX3, kNone},
}};

const Level& level(InstructionSet set) { return kLevels[static_cast<std::size_t>(set)]; }

// Libraries have one such setting for the process; this is what they were told.
struct Limit {
  std::mutex mutex = {};
  std::optional<InstructionSet> set = {};
  std::int64_t targets = 0;  // Highway's, those that are used
};

Limit& limit() {
  static Limit limit;
  return limit;
}

bool covers(dnnl::cpu_isa has, dnnl::cpu_isa wanted) {
  const auto bits = static_cast<unsigned>(wanted);
  return (static_cast<unsigned>(has) & bits) == bits;
}

// Who asks Highway which targets there are makes it choose the processor's best, whatever was
// disabled. So it is asked here alone, and told what to choose right after.
void choose_target() {
  limit().targets = hwy::SupportedTargets();
  hwy::GetChosenTarget().Update(limit().targets);
}

void tell_libraries(InstructionSet set) {
  if (dnnl::set_max_cpu_isa(level(set).of_dnnl) != dnnl::status::success &&
      dnnl::get_effective_cpu_isa() != level(set).of_dnnl)
    throw Unsupported("instruction set: it is too late to use nothing above {}: kernels have run",
                      to_string(set));
  hwy::DisableTargets(level(set).above);
  choose_target();
}

std::int64_t targets_in_use() {
  const std::lock_guard lock(limit().mutex);
  return limit().targets;
}

const char* name_of(dnnl::cpu_isa isa) {
  if (covers(isa, dnnl::cpu_isa::avx512_core_amx)) return "avx512_core_amx";
  if (covers(isa, dnnl::cpu_isa::avx512_core_bf16)) return "avx512_core_bf16";
  if (covers(isa, dnnl::cpu_isa::avx512_core_vnni)) return "avx512_core_vnni";
  if (covers(isa, dnnl::cpu_isa::avx512_core)) return "avx512_core";
  if (covers(isa, dnnl::cpu_isa::avx2)) return "avx2";
  return covers(isa, dnnl::cpu_isa::avx) ? "avx" : "sse41";
}

}  // namespace

InstructionSet best_instruction_set() {
  const InstructionSet usable = usable_instruction_set(ask_processor());
  const char* wish = std::getenv("LOCKSTEP_ISA");
  return wish == nullptr || *wish == '\0' ? usable : std::min(usable, parse_instruction_set(wish));
}

// Below AVX2 oneDNN knows a set that we do not: AVX.
bool needs_limit(InstructionSet set, const ProcessorAnswers& answers) {
  return set < shown_instruction_set(answers) || set == InstructionSet::sse4;
}

void limit_instruction_set(InstructionSet set) {
  const ProcessorAnswers answers = ask_processor();
  const std::lock_guard lock(limit().mutex);
  set = std::min(set, limit().set.value_or(usable_instruction_set(answers)));
  if (set != limit().set && needs_limit(set, answers)) tell_libraries(set);
  if (limit().targets == 0) choose_target();
  limit().set = set;
}

void settle_instruction_set() {
  [[maybe_unused]] static const bool settled = [] {
    limit_instruction_set(best_instruction_set());
    return true;
  }();
}

InstructionSet settled_instruction_set() {
  settle_instruction_set();
  const std::lock_guard lock(limit().mutex);
  return *limit().set;
}

std::string instruction_set_in_use() {
  const InstructionSet set = settled_instruction_set();
  const Level& used = level(set);
  std::string text(to_string(set));
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  if (!covers(isa, used.of_dnnl)) text += fmt::format(", oneDNN {}", name_of(isa));
  const std::int64_t targets = targets_in_use() & HWY_TARGETS;
  if ((targets & used.target) == 0)
    text += fmt::format(", Highway {}", hwy::TargetName(targets & -targets));
  return text;
}

}  // namespace lockstep
