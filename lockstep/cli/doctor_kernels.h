// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/base/processor.h"
#include "lockstep/cluster/doctor/host_facts.h"

namespace lockstep::cli {

// How a kernel of one instruction set ended.
struct KernelTrial {
  InstructionSet set;
  std::string failure = {};  // "ended by SIGILL"; empty: it works
};

// Convolves and multiplies in float32 and bfloat16 with nothing above `set`. Throws InternalError
// for a wrong result. Once in a process.
void run_kernels_of(InstructionSet set);

// Calls `kernel` for each set up to `best`, each in a child process: what kills it is told.
// Nothing of the calling process may have run a kernel before.
std::vector<KernelTrial> try_kernels(
    InstructionSet best, const std::function<void(InstructionSet)>& kernel = run_kernels_of);

// What works, and what does not, as the doctor's report has it.
void add_trials(cluster::HostFacts& facts, const std::vector<KernelTrial>& trials);

}  // namespace lockstep::cli
