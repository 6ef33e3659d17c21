// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "lockstep/ops/kernel.h"
#include "lockstep/tensor/backend.h"

namespace lockstep {

// A kernel call that can wait for its turn: it owns whatever it needs but the device's memory.
struct KernelLaunch {
  const KernelCandidate* direct = nullptr;
  std::shared_ptr<const PreparedKernel> prepared;  // exactly one of direct and prepared is set
  Attrs attrs;
  std::vector<TensorView> operands;  // inputs, then outputs; addresses of the device
  std::size_t inputs = 0;
  std::byte* scratch = nullptr;

  void run(const MemoryMap& memory) const;
};

// Puts the call into the device's queue.
void launch(const Device& device, KernelLaunch call);

}  // namespace lockstep
