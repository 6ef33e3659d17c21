// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/launch.h"

namespace lockstep {
namespace {

void run_direct(const KernelLaunch& call, const MemoryMap& memory) {
  std::vector<TensorView> operands = call.operands;
  for (TensorView& operand : operands) operand.data = memory.at(operand.data);
  const std::span<const TensorView> all(operands);
  call.direct->direct({all.first(call.inputs), all.subspan(call.inputs), call.attrs});
}

void run_prepared(const KernelLaunch& call, const MemoryMap& memory) {
  std::vector<std::byte*> pointers;
  for (const TensorView& operand : call.operands) pointers.push_back(memory.at(operand.data));
  const std::span<std::byte* const> all(pointers);
  call.prepared->run({all.first(call.inputs), all.subspan(call.inputs), memory.at(call.scratch)});
}

}  // namespace

void KernelLaunch::run(const MemoryMap& memory) const {
  if (prepared)
    run_prepared(*this, memory);
  else
    run_direct(*this, memory);
}

void launch(const Device& device, KernelLaunch call) {
  device.backend->submit([call = std::move(call)](const MemoryMap& memory) { call.run(memory); });
}

}  // namespace lockstep
