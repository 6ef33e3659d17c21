// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// Vector instructions by which kernels are chosen, each a superset of those before it. Another set
// rounds differently, so it is part of what makes a result.
enum class InstructionSet { sse4, avx2, avx512, avx512_vnni, avx512_bf16, amx };

// From the lowest to the highest.
std::span<const InstructionSet> instruction_sets();
std::string_view to_string(InstructionSet set);
// "sse4", "avx2", ... Throws InvalidArgument, which lists them.
InstructionSet parse_instruction_set(std::string_view name);

// What a processor and the operating system answer when they are asked for instructions.
struct ProcessorAnswers {
  std::uint32_t features = 0;           // CPUID leaf 1, ECX
  std::uint32_t extended_ebx = 0;       // leaf 7
  std::uint32_t extended_ecx = 0;       // leaf 7
  std::uint32_t extended_edx = 0;       // leaf 7
  std::uint32_t more_extended_eax = 0;  // leaf 7, subleaf 1
  std::uint32_t tile_palettes = 0;      // leaf 0x1D, EAX: the highest one, 0 for none
  std::uint64_t saved_state = 0;        // XCR0: the registers that the system saves
  bool tiles_permitted = false;         // arch_prctl(ARCH_REQ_XCOMP_PERM) for tile data
};
ProcessorAnswers ask_processor();

// By the instructions' flags and the state that is saved for them: what libraries believe.
InstructionSet shown_instruction_set(const ProcessorAnswers& answers);
// What can be run. A hypervisor may show AMX's flags and have no tiles to go with them.
InstructionSet usable_instruction_set(const ProcessorAnswers& answers);

// "Intel(R) Xeon(R) Processor"
std::string processor_name();

}  // namespace lockstep
