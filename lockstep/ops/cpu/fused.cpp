// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/fused.h"

#include <algorithm>
#include <array>

#include "lockstep/ops/cpu/tile_ops.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/fused.h"
#include "lockstep/tensor/copy.h"

namespace lockstep::kernels {
namespace {

constexpr std::size_t kTile = 1024;  // floats: a dozen registers stay in the first-level cache
constexpr std::size_t kMostRegisters = 64;

// Runs the whole chain on one tile after another, so that what lies between two ops of the chain
// never leaves the cache. Every instruction's result has a tile of scratch.
class FusedKernel final : public PreparedKernel {
 public:
  explicit FusedKernel(const KernelRequest& request)
      : count_(static_cast<std::size_t>(request.outputs[0].shape.numel())),
        inputs_(request.inputs.size()),
        instructions_(parse_fused(request.attrs.as<FusedAttrs>().program, inputs_)) {
    for (const TensorInfo& input : request.inputs)
      single_.push_back(input.shape.numel() == 1 && count_ != 1);
    for (const FusedInstruction& instruction : instructions_)
      functions_.push_back(tile_function(instruction.op->name, single_operands(instruction)));
    name = "tiles";
    input_layouts.resize(inputs_);
    output_layouts.resize(1);
    scratch_bytes = instructions_.size() * kTile * sizeof(float);
  }

  void run(const KernelBuffers& buffers) const override {
    std::array<float*, kMostRegisters> registers{};
    auto* scratch = reinterpret_cast<float*>(buffers.scratch);
    for (std::size_t k = 0; k < instructions_.size(); ++k)
      registers[inputs_ + k] = scratch + k * kTile;
    for (std::size_t begin = 0; begin < count_; begin += kTile) {
      for (std::size_t i = 0; i < inputs_; ++i)
        registers[i] = reinterpret_cast<float*>(buffers.inputs[i]) + (single_[i] ? 0 : begin);
      registers[inputs_ + instructions_.size() - 1] =
          reinterpret_cast<float*>(buffers.outputs[0]) + begin;
      run_tile(registers.data(), std::min(kTile, count_ - begin));
    }
  }

 private:
  unsigned single_operands(const FusedInstruction& instruction) const {
    unsigned bits = 0;
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
      const auto r = static_cast<std::size_t>(instruction.operands[i]);
      if (r < inputs_ && single_[r]) bits |= 1u << i;
    }
    return bits;
  }

  void run_tile(float* const* registers, std::size_t n) const {
    for (std::size_t k = 0; k < instructions_.size(); ++k) {
      const FusedInstruction& instruction = instructions_[k];
      std::array<const float*, 4> operands{};
      for (std::size_t i = 0; i < instruction.operands.size(); ++i)
        operands[i] = registers[static_cast<std::size_t>(instruction.operands[i])];
      functions_[k](operands.data(), instruction.params.data(), registers[inputs_ + k], n);
    }
  }

  std::size_t count_;
  std::size_t inputs_;
  std::vector<FusedInstruction> instructions_;
  std::vector<TileFn> functions_;
  std::vector<bool> single_;
};

std::unique_ptr<PreparedKernel> prepare_fused(const KernelRequest& request, std::string& declined) {
  const auto program = parse_fused(request.attrs.as<FusedAttrs>().program, request.inputs.size());
  if (program.size() + request.inputs.size() > kMostRegisters) {
    declined = "the chain is too long";
    return nullptr;
  }
  return std::make_unique<FusedKernel>(request);
}

// One op after the other, each with its own kernel.
void run_in_turn(const KernelCall& call) {
  const InterceptScope unseen(nullptr);
  std::vector<Tensor> inputs;
  for (const TensorView& view : call.inputs) {
    inputs.push_back(Tensor::empty(view.shape, view.dtype));
    copy_strided(view.shape, {view.data, view.strides, view.dtype},
                 {inputs.back().raw(), inputs.back().strides(), view.dtype});
  }
  const Tensor result = fused_elementwise_op().decompose(inputs, call.attrs)[0];
  const TensorView& out = call.outputs[0];
  copy_strided(out.shape, {result.raw(), result.strides(), out.dtype},
               {out.data, out.strides, out.dtype});
}

}  // namespace

std::span<const KernelCandidate> fused_elementwise_kernels() {
  static constexpr KernelCandidate kCandidates[] = {
      {.name = "tiles", .dtypes = {DType::float32}, .prepare = prepare_fused},
      {.name = "in turn", .dtypes = {DType::float64}, .direct = run_in_turn}};
  return kCandidates;
}

}  // namespace lockstep::kernels
