// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/cpu/pool.h"
#include "lockstep/ops/cpu/pool_blocks.h"

// Max pools in a convolution's own layout, where oneDNN's take three to five times as long.
namespace lockstep::kernels {
namespace {

using dnnl::memory;

BlockedPool blocked_pool(const TensorInfo& x, const TensorInfo& y, const PoolWindow& window,
                         std::int64_t block) {
  const std::int64_t channels = x.shape[1], blocks = (channels + block - 1) / block;
  BlockedPool pool{{x.shape, y.shape, window}, block, blocks, channels - (blocks - 1) * block};
  pool.problem.planes = x.shape[0] * blocks;
  return pool;
}

class MaxPoolForward final : public PreparedKernel {
 public:
  MaxPoolForward(BlockedPool pool, DType dtype, bool workspace)
      : pool_(std::move(pool)), dtype_(dtype), workspace_(workspace) {}

  void run(const KernelBuffers& buffers) const override {
    auto* workspace = reinterpret_cast<std::uint8_t*>(workspace_ ? buffers.outputs[1] : nullptr);
    max_pool_blocks(pool_, dtype_, buffers.inputs[0], buffers.outputs[0], workspace);
  }

 private:
  BlockedPool pool_;
  DType dtype_;
  bool workspace_;
};

class MaxPoolBackward final : public PreparedKernel {
 public:
  explicit MaxPoolBackward(BlockedPool pool) : pool_(std::move(pool)) {}

  void run(const KernelBuffers& buffers) const override {
    max_pool_blocks_backward(pool_, reinterpret_cast<const float*>(buffers.inputs[0]),
                             reinterpret_cast<const std::uint8_t*>(buffers.inputs[1]),
                             reinterpret_cast<float*>(buffers.outputs[0]));
  }

 private:
  BlockedPool pool_;
};

// The block of the layout that input `leader` is offered in; 0, with the reason, where it has none.
std::int64_t offered_block(const KernelRequest& request, std::size_t leader, DType workspace,
                           std::string& declined) {
  std::int64_t block = 0;
  if (!request.offered[leader].is_plain())
    block = channel_block(desc_of(request.inputs[leader], request.offered[leader]));
  if (block == 0) declined = "the layout is not in blocks of 8 or 16 channels";
  if (workspace != DType::uint8) declined = "positions do not fit a byte";
  return declined.empty() ? block : 0;
}

Layout same_blocks(const KernelRequest& request, std::size_t leader, const TensorInfo& info) {
  const memory::desc pattern = desc_of(request.inputs[leader], request.offered[leader]);
  return layout_of(desc_like(pattern, dnnl_dims(info.shape), *dnnl_type(info.dtype)));
}

}  // namespace

std::unique_ptr<PreparedKernel> prepare_blocked_max_pool(const KernelRequest& request,
                                                         std::string& declined) {
  const TensorInfo &x = request.inputs[0], &y = request.outputs[0];
  const std::int64_t block = offered_block(request, 0, request.outputs[1].dtype, declined);
  if (block == 0) return nullptr;
  const bool workspace = !request.unused(1);
  auto kernel = std::make_unique<MaxPoolForward>(
      blocked_pool(x, y, request.attrs.as<PoolAttrs>(), block), x.dtype, workspace);
  kernel->name = "blocks";
  kernel->input_layouts = {request.offered[0]};
  kernel->output_layouts = {same_blocks(request, 0, y),
                            workspace ? same_blocks(request, 0, request.outputs[1]) : Layout()};
  return kernel;
}

std::unique_ptr<PreparedKernel> prepare_blocked_max_pool_backward(const KernelRequest& request,
                                                                  std::string& declined) {
  const TensorInfo &y = request.inputs[0], &x = request.outputs[0];
  const std::int64_t block = offered_block(request, 1, request.inputs[1].dtype, declined);
  if (block == 0) return nullptr;
  auto kernel = std::make_unique<MaxPoolBackward>(
      blocked_pool(x, y, request.attrs.as<PoolBackwardAttrs>(), block));
  kernel->name = "blocks";
  kernel->input_layouts = {same_blocks(request, 1, y), request.offered[1]};
  kernel->output_layouts = {same_blocks(request, 1, x)};
  return kernel;
}

}  // namespace lockstep::kernels
