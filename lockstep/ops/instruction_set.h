// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/processor.h"

namespace lockstep {

// The best that this processor can run; at most what the environment's LOCKSTEP_ISA says.
InstructionSet best_instruction_set();

// Whether libraries would take more than `set` by themselves.
bool needs_limit(InstructionSet set, const ProcessorAnswers& answers);
// Kernels use nothing above `set` from now on. Before the first kernel of a process: libraries
// choose theirs once. Throws Unsupported when that is over, unless nothing changes by it.
void limit_instruction_set(InstructionSet set);
// Whoever is about to make a kernel calls it: nothing runs that LOCKSTEP_ISA excludes or that the
// processor shows and does not have. Throws InvalidArgument for a LOCKSTEP_ISA that is no set.
void settle_instruction_set();
// What kernels are limited to.
InstructionSet settled_instruction_set();

// The same for people: "avx512". Where a library was told otherwise behind our back, its own
// is named: "avx512, oneDNN sse41". Libraries cannot be limited any more after it.
std::string instruction_set_in_use();

}  // namespace lockstep
