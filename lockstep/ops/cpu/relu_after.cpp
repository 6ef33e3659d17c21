// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/relu_after.h"

#include "lockstep/ops/cpu/rows.h"

namespace lockstep::kernels {
namespace {

class ReluAfter final : public PreparedKernel {
 public:
  ReluAfter(std::unique_ptr<PreparedKernel> kernel, const TensorInfo& output)
      : kernel_(std::move(kernel)), wide_(output.dtype == DType::float32) {
    name = kernel_->name;
    scratch_bytes = kernel_->scratch_bytes;
    input_layouts = kernel_->input_layouts;
    output_layouts = kernel_->output_layouts;
    count_ = static_cast<std::int64_t>(output_layouts[0].bytes(output) / item_size(output.dtype));
  }

  void run(const KernelBuffers& buffers) const override {
    kernel_->run(buffers);
    if (wide_)
      relu_in_place(reinterpret_cast<float*>(buffers.outputs[0]), count_);
    else
      relu_in_place(reinterpret_cast<BFloat16*>(buffers.outputs[0]), count_);
  }

 private:
  std::unique_ptr<PreparedKernel> kernel_;
  bool wide_;
  std::int64_t count_;
};

}  // namespace

std::unique_ptr<PreparedKernel> relu_after(std::unique_ptr<PreparedKernel> kernel,
                                           const TensorInfo& output) {
  return std::make_unique<ReluAfter>(std::move(kernel), output);
}

}  // namespace lockstep::kernels
