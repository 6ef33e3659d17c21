// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "lockstep/ops/cpu/dense_dnnl.h"
#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/cpu/gemm.h"
#include "lockstep/ops/cpu/matmul.h"
#include "lockstep/ops/cpu/rows.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/op.h"

// Dense is a matrix product of x as [rows, features] with the weight as [units, features]. The
// product does not care in which order the features lie in memory, as long as x and the weight
// agree. So where a convolution or a pool leaves x in a blocked layout whose samples are whole and
// one after another, x stays as it is and the weight takes the same layout, with units in place of
// samples: no activation is ever reordered, and all three directions run on the same weight.
namespace lockstep::kernels {
namespace {

DenseSizes dense_sizes(const Shape& y, const Shape& weight) {
  const auto leading = y.span().first(static_cast<std::size_t>(y.rank() - 1));
  return {Shape(leading).numel(), weight[1], weight[0]};
}

// The descriptor with `count` along axis 0, when axis 0 is the slowest and the rest of the bytes
// is a dense, unpadded block for each of its entries.
std::optional<dnnl::memory::desc> with_samples(const dnnl::memory::desc& desc, std::int64_t count) {
  dnnl::memory::desc result = desc;
  dnnl_memory_desc_t& d = result.data;
  if (d.format_kind != dnnl_blocked || d.offset0 != 0 || d.extra.flags != 0) return std::nullopt;
  dnnl_dim_t sample = 1;
  for (int i = 0; i < d.ndims; ++i) {
    if (d.dims[i] != d.padded_dims[i]) return std::nullopt;
    if (i > 0) sample *= d.dims[i];
  }
  dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
  for (int i = 0; i < blocking.inner_nblks; ++i)
    if (blocking.inner_idxs[i] == 0) return std::nullopt;
  if (blocking.strides[0] != sample) return std::nullopt;
  for (int i = 1; i < d.ndims; ++i)
    if (blocking.strides[i] > sample) return std::nullopt;
  d.dims[0] = d.padded_dims[0] = count;
  return result;
}

// The layout with `count` samples in place of its own: the one that the other operand of a product
// has to have. Nothing when `layout` does not keep samples apart, or has other axes than x.
std::optional<Layout> companion(const TensorInfo& info, const Layout& layout, std::int64_t count,
                                const Shape& x) {
  if (layout.is_plain()) return Layout();
  const auto desc = with_samples(desc_of(info, layout), count);
  if (!desc) return std::nullopt;
  const auto dims = desc->dims();
  if (!std::equal(dims.begin() + 1, dims.end(), x.begin() + 1, x.end())) return std::nullopt;
  return layout_of(*desc);
}

void product(const float* x, const float* weight, const DenseSizes& n, float* y) {
  gemm(dense_matrix(x, n.rows, n.features), dense_matrix(weight, n.units, n.features).transposed(),
       y);
}

class DenseForward final : public PreparedKernel {
 public:
  DenseForward(const DenseSizes& sizes, bool bias, bool relu)
      : sizes_(sizes), bias_(bias), relu_(relu) {}

  void run(const KernelBuffers& buffers) const override {
    const auto* x = reinterpret_cast<const float*>(buffers.inputs[0]);
    const auto* weight = reinterpret_cast<const float*>(buffers.inputs[1]);
    const auto* bias = bias_ ? reinterpret_cast<const float*>(buffers.inputs[2]) : nullptr;
    auto* y = reinterpret_cast<float*>(buffers.outputs[0]);
    product(x, weight, sizes_, y);
    finish_rows(y, bias, sizes_.rows, sizes_.units, relu_);
  }

 private:
  DenseSizes sizes_;
  bool bias_, relu_;
};

class DenseBackwardData final : public PreparedKernel {
 public:
  explicit DenseBackwardData(const DenseSizes& sizes) : sizes_(sizes) {}

  void run(const KernelBuffers& buffers) const override {
    const auto* dy = reinterpret_cast<const float*>(buffers.inputs[0]);
    const auto* weight = reinterpret_cast<const float*>(buffers.inputs[1]);
    gemm(dense_matrix(dy, sizes_.rows, sizes_.units),
         dense_matrix(weight, sizes_.units, sizes_.features),
         reinterpret_cast<float*>(buffers.outputs[0]));
  }

 private:
  DenseSizes sizes_;
};

class DenseBackwardWeights final : public PreparedKernel {
 public:
  DenseBackwardWeights(const DenseSizes& sizes, bool bias) : sizes_(sizes), bias_(bias) {}

  void run(const KernelBuffers& buffers) const override {
    const auto* x = reinterpret_cast<const float*>(buffers.inputs[0]);
    const auto* dy = reinterpret_cast<const float*>(buffers.inputs[1]);
    auto* dw = reinterpret_cast<float*>(buffers.outputs[0]);
    float* db = bias_ ? reinterpret_cast<float*>(buffers.outputs[1]) : nullptr;
    if (bias_) std::fill_n(db, sizes_.units, 0.0f);
    if (sizes_.rows == 0) std::fill_n(dw, sizes_.units * sizes_.features, 0.0f);
    for (std::int64_t i = 0; i < sizes_.rows; i += kSlabRows) run_slab(x, dy, i, dw, db);
  }

 private:
  // The bias sums bring dy into the cache, from where the product takes it.
  void run_slab(const float* x, const float* dy, std::int64_t first, float* dw, float* db) const {
    static_assert(kSlabRows % kRowGroup == 0);
    const std::int64_t rows = std::min(kSlabRows, sizes_.rows - first);
    const float* dy_rows = dy + first * sizes_.units;
    if (bias_) add_rows(dy_rows, rows, sizes_.units, db);
    gemm_slab(dense_matrix(dy_rows, rows, sizes_.units),
              dense_matrix(x + first * sizes_.features, rows, sizes_.features), first > 0, dw);
  }

  DenseSizes sizes_;
  bool bias_;
};

std::unique_ptr<PreparedKernel> with_plain_layouts(std::unique_ptr<PreparedKernel> kernel,
                                                   const KernelRequest& request) {
  kernel->name = "sgemm";
  kernel->input_layouts.resize(request.inputs.size());
  kernel->output_layouts.resize(request.outputs.size());
  return kernel;
}

// With many rows it pays to pack the weight first, on every run, for the library's own inner
// product, which adds the bias while results are in registers: 3 to 13% faster
// from 512 rows on, and slower below 256 (one AVX-512 core; backward passes do not gain).
constexpr std::int64_t kRowsToPack = 512;

bool has_zero(const DenseSizes& n) { return n.rows == 0 || n.features == 0 || n.units == 0; }

bool is_float32(const KernelRequest& request) { return request.inputs[0].dtype == DType::float32; }

// Why bfloat16 should rather be computed in float32, or an empty string.
std::string reason_to_widen(const KernelRequest& request, const DenseSizes& n) {
  if (is_float32(request)) return {};
  if (has_zero(n)) return "a size is 0";
  return has_bf16_instructions() ? "" : "no bfloat16 instructions";
}

std::unique_ptr<PreparedKernel> forward_kernel(const KernelRequest& request, const DenseSizes& n) {
  const bool relu = request.attrs.as<DenseAttrs>().activation == "relu";
  if (!is_float32(request)) return inner_product(request, n, relu);
  if (n.rows >= kRowsToPack && !has_zero(n))
    if (auto kernel = inner_product(request, n, relu)) return kernel;
  return with_plain_layouts(std::make_unique<DenseForward>(n, request.inputs.size() == 3, relu),
                            request);
}

std::unique_ptr<PreparedKernel> backward_data_kernel(const KernelRequest& request,
                                                     const DenseSizes& n) {
  if (!is_float32(request)) return inner_product_backward_data(request, n);
  return with_plain_layouts(std::make_unique<DenseBackwardData>(n), request);
}

std::unique_ptr<PreparedKernel> backward_weights_kernel(const KernelRequest& request,
                                                        const DenseSizes& n) {
  if (!is_float32(request)) return inner_product_backward_weights(request, n);
  return with_plain_layouts(std::make_unique<DenseBackwardWeights>(n, request.outputs.size() == 2),
                            request);
}

using MakeKernel = std::unique_ptr<PreparedKernel> (*)(const KernelRequest&, const DenseSizes&);

std::unique_ptr<PreparedKernel> make_kernel(const KernelRequest& request, const DenseSizes& n,
                                            MakeKernel make, std::string& declined) try {
  declined = reason_to_widen(request, n);
  if (!declined.empty()) return nullptr;
  const OneThread one;
  auto kernel = make(request, n);
  if (kernel == nullptr) declined = "the library has no implementation";
  return kernel;
} catch (const dnnl::error& error) {
  rethrow(error, std::string(request.op.name));
}

// The weight follows x.
std::unique_ptr<PreparedKernel> prepare_dense(const KernelRequest& request, std::string& declined) {
  const TensorInfo& x = request.inputs[0];
  const DenseSizes sizes = dense_sizes(request.outputs[0].shape, request.inputs[1].shape);
  auto kernel = make_kernel(request, sizes, forward_kernel, declined);
  if (!kernel || !request.choose_layouts || !request.attrs.as<DenseAttrs>().flatten) return kernel;
  if (const auto weight = companion(x, request.offered[0], sizes.units, x.shape)) {
    kernel->input_layouts[0] = request.offered[0];
    kernel->input_layouts[1] = *weight;
  }
  return kernel;
}

// dx follows the weight.
std::unique_ptr<PreparedKernel> prepare_dense_backward_data(const KernelRequest& request,
                                                            std::string& declined) {
  const DenseSizes sizes = dense_sizes(request.inputs[0].shape, request.inputs[1].shape);
  auto kernel = make_kernel(request, sizes, backward_data_kernel, declined);
  const bool flatten = request.attrs.as<DenseBackwardDataAttrs>().flatten;
  if (!kernel || !request.choose_layouts || !flatten) return kernel;
  if (const auto x =
          companion(request.inputs[1], request.offered[1], sizes.rows, request.outputs[0].shape)) {
    kernel->input_layouts[1] = request.offered[1];
    kernel->output_layouts[0] = *x;
  }
  return kernel;
}

// dw follows x.
std::unique_ptr<PreparedKernel> prepare_dense_backward_weights(const KernelRequest& request,
                                                               std::string& declined) {
  const TensorInfo& x = request.inputs[0];
  const DenseSizes sizes = dense_sizes(request.inputs[1].shape, request.outputs[0].shape);
  auto kernel = make_kernel(request, sizes, backward_weights_kernel, declined);
  const bool flatten = request.attrs.as<DenseBackwardWeightsAttrs>().flatten;
  if (!kernel || !request.choose_layouts || !flatten) return kernel;
  if (const auto weight = companion(x, request.offered[0], sizes.units, x.shape)) {
    kernel->input_layouts[0] = request.offered[0];
    kernel->output_layouts[0] = *weight;
  }
  return kernel;
}

void dense_float64(const KernelCall& call) {
  const DenseSizes n = dense_sizes(call.outputs[0].shape, call.inputs[1].shape);
  double* y = call.outputs[0].as<double>();
  gemm(dense_matrix(call.inputs[0].as<double>(), n.rows, n.features),
       dense_matrix(call.inputs[1].as<double>(), n.units, n.features).transposed(), y);
  const double* bias = call.inputs.size() == 3 ? call.inputs[2].as<double>() : nullptr;
  finish_rows(y, bias, n.rows, n.units, call.attrs.as<DenseAttrs>().activation == "relu");
}

void dense_backward_data_float64(const KernelCall& call) {
  const DenseSizes n = dense_sizes(call.inputs[0].shape, call.inputs[1].shape);
  gemm(dense_matrix(call.inputs[0].as<double>(), n.rows, n.units),
       dense_matrix(call.inputs[1].as<double>(), n.units, n.features),
       call.outputs[0].as<double>());
}

void dense_backward_weights_float64(const KernelCall& call) {
  const DenseSizes n = dense_sizes(call.inputs[1].shape, call.outputs[0].shape);
  const double* dy = call.inputs[1].as<double>();
  gemm(dense_matrix(dy, n.rows, n.units).transposed(),
       dense_matrix(call.inputs[0].as<double>(), n.rows, n.features), call.outputs[0].as<double>());
  if (call.outputs.size() == 2) sum_rows(dy, n.rows, n.units, call.outputs[1].as<double>());
}

}  // namespace

std::span<const KernelCandidate> dense_kernels() {
  static const KernelCandidate kernels[] = {
      {"product", {DType::float32, DType::bfloat16}, nullptr, prepare_dense},
      {"blocked", {DType::float64}, dense_float64},
  };
  return kernels;
}

std::span<const KernelCandidate> dense_backward_data_kernels() {
  static const KernelCandidate kernels[] = {
      {"product", {DType::float32, DType::bfloat16}, nullptr, prepare_dense_backward_data},
      {"blocked", {DType::float64}, dense_backward_data_float64},
  };
  return kernels;
}

std::span<const KernelCandidate> dense_backward_weights_kernels() {
  static const KernelCandidate kernels[] = {
      {"product", {DType::float32, DType::bfloat16}, nullptr, prepare_dense_backward_weights},
      {"blocked", {DType::float64}, dense_backward_weights_float64},
  };
  return kernels;
}

}  // namespace lockstep::kernels
