// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Vector instructions by which kernels are chosen, each a superset of those before it. Another set
// rounds differently, so it is part of what makes a result.
enum class InstructionSet { sse4, avx2, avx512, avx512_vnni, avx512_bf16, amx };

std::string_view to_string(InstructionSet set);
// "sse4", "avx2", ... Throws InvalidArgument, which lists them.
InstructionSet parse_instruction_set(std::string_view name);

// The best that this processor has; at most what the environment's LOCKSTEP_ISA says.
InstructionSet best_instruction_set();
// Kernels use nothing above `set` from now on. Before the first kernel of a process: libraries
// choose theirs once. Throws Unsupported when that is over, unless nothing changes by it.
void limit_instruction_set(InstructionSet set);

// "Intel(R) Xeon(R) Processor"
std::string processor_name();

}  // namespace lockstep
