// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/channel_sums_after.h"

#include <algorithm>
#include <array>
#include <vector>

#include "lockstep/ops/cpu/dnnl_common.h"

namespace lockstep::kernels {
namespace {

constexpr std::int64_t kMaxBlock = 16;
constexpr std::int64_t kLanes = 16;    // sums of every sixteenth place
constexpr std::int64_t kInFloat = 64;  // terms of one of them, before it goes to double

// 1 for a plain layout, 0 for one that has other blocks.
std::int64_t block_of(const Layout& layout) {
  if (layout.is_plain()) return 1;
  const auto* blocked = dynamic_cast<const DnnlLayout*>(layout.blocked());
  return blocked == nullptr ? 0 : channel_block(blocked->desc());
}

// Adds row[i] to totals[i % block]. Each channel's terms are added in one order, whatever the
// block.
void add_row(const float* row, std::int64_t count, std::int64_t block, double* totals) {
  std::array<float, kLanes * kMaxBlock> lanes;
  const std::int64_t width = kLanes * block, whole = kInFloat * width;
  for (std::int64_t begin = 0; begin < count; begin += whole) {
    const std::int64_t end = std::min(count, begin + whole);
    lanes.fill(0.0F);
    for (std::int64_t i = begin; i < end; i += width) {
      float* lane = lanes.data();
      for (std::int64_t k = 0, n = std::min(width, end - i); k < n; ++k) lane[k] += row[i + k];
    }
    for (std::int64_t k = 0; k < width; ++k)
      totals[k % block] += static_cast<double>(lanes[static_cast<std::size_t>(k)]);
  }
}

class ChannelSumsAfter final : public PreparedKernel {
 public:
  ChannelSumsAfter(std::unique_ptr<PreparedKernel> kernel, const Shape& summed)
      : kernel_(std::move(kernel)), batch_(summed[0]), channels_(summed[1]) {
    name = kernel_->name;
    scratch_bytes = kernel_->scratch_bytes;
    input_layouts = kernel_->input_layouts;
    output_layouts = kernel_->output_layouts;
    block_ = block_of(input_layouts[1]);
    size_ = summed.numel() / (batch_ * channels_);
  }

  void run(const KernelBuffers& buffers) const override {
    kernel_->run(buffers);
    const std::int64_t blocks = (channels_ + block_ - 1) / block_, row = size_ * block_;
    const auto* x = reinterpret_cast<const float*>(buffers.inputs[1]);
    auto* sums = reinterpret_cast<float*>(buffers.outputs[1]);
    for (std::int64_t b = 0; b < blocks; ++b) {
      std::array<double, kMaxBlock> totals{};
      for (std::int64_t n = 0; n < batch_; ++n)
        add_row(x + (n * blocks + b) * row, row, block_, totals.data());
      const std::int64_t first = b * block_, count = std::min(block_, channels_ - first);
      std::transform(totals.begin(), totals.begin() + count, sums + first,
                     [](double total) { return static_cast<float>(total); });
    }
  }

 private:
  std::unique_ptr<PreparedKernel> kernel_;
  std::int64_t batch_, channels_, size_, block_;
};

}  // namespace

bool can_sum_channels(const Layout& layout) { return block_of(layout) != 0; }

std::unique_ptr<PreparedKernel> channel_sums_after(std::unique_ptr<PreparedKernel> kernel,
                                                   const TensorInfo& summed) {
  return std::make_unique<ChannelSumsAfter>(std::move(kernel), summed.shape);
}

}  // namespace lockstep::kernels
