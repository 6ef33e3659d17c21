// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/rnn.h"

#include <algorithm>

#include "lockstep/ops/cpu/rnn_kernel.h"
#include "lockstep/ops/cpu/rnn_reference.h"

namespace lockstep::kernels {

Sequences::Sequences(const std::byte* lengths, DType dtype, const RnnSizes& n)
    : lengths_(sequence_lengths(lengths, dtype, n)) {}

RnnKernel::RnnKernel(const KernelRequest& request, const RnnAttrs& attrs, std::size_t first)
    : n(rnn_sizes(attrs, request.inputs[first].shape,
                  request.inputs[first + (attrs.mode == "lstm" ? 4 : 3)].shape)),
      at(n),
      lengths_dtype(n.has_lengths ? request.inputs[first + at.lengths()].dtype : DType::int64) {
  name = "packed products";
  input_layouts.resize(request.inputs.size());
  output_layouts.resize(request.outputs.size());
}

std::int64_t RnnKernel::chunk_steps() const {
  constexpr std::int64_t kChunkFloats = 256 * 1024;
  const std::int64_t step = std::max<std::int64_t>(n.batch * n.gate_width(), 1);
  return std::clamp<std::int64_t>(kChunkFloats / step, 1, std::max<std::int64_t>(n.steps, 1));
}

Sequences RnnKernel::sequences(const KernelBuffers& buffers, std::size_t first) const {
  return {n.has_lengths ? buffers.inputs[first + at.lengths()] : nullptr, lengths_dtype, n};
}

std::span<const KernelCandidate> rnn_layer_kernels() {
  static const KernelCandidate kernels[] = {
      {.name = "packed products", .dtypes = {DType::float32}, .prepare = prepare_rnn_forward},
      {.name = "reference", .dtypes = {DType::float64}, .direct = rnn_layer_reference}};
  return kernels;
}

std::span<const KernelCandidate> rnn_layer_backward_kernels() {
  static const KernelCandidate kernels[] = {
      {.name = "packed products", .dtypes = {DType::float32}, .prepare = prepare_rnn_backward},
      {.name = "reference", .dtypes = {DType::float64}, .direct = rnn_layer_backward_reference}};
  return kernels;
}

}  // namespace lockstep::kernels
