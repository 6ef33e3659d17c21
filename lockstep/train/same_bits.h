// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "lockstep/kvstore/group.h"
#include "lockstep/ops/instruction_set.h"

namespace lockstep::train {

// All workers use the best instruction set that each of them has, or `recorded`, that of a run
// which goes on, where each of them has that one. Call it once, before anything is computed: alone,
// it obeys LOCKSTEP_ISA. Returns the set.
InstructionSet agree_on_instruction_set(kvstore::Group& group,
                                        std::optional<InstructionSet> recorded = {});

// What a worker computes from fixed input, to compare with the others.
struct Probe {
  std::string parameters;  // their SHA-256
  std::string layouts;     // that of where their elements lie in memory
  std::string results;     // that of what the job's executable makes of fixed input
};

// Whether all workers' probes are equal. Throws Refused when they are not and `allow` is false: it
// names the worker, both sums and both processors. Parameters and layouts must always be equal:
// gradients are added as they lie in memory.
bool have_same_bits(kvstore::Group& group, const Probe& own, bool allow);

}  // namespace lockstep::train
