// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/matmul.h"

#include "lockstep/ops/cpu/gemm.h"
#include "lockstep/ops/matmul.h"

namespace lockstep::kernels {
namespace {

// One operand: its matrix of batch 0, and strides of the output's batch axes.
struct Batched {
  std::int64_t rows, columns, row_stride, column_stride;
  Strides batch;
};

Batched batched(const TensorView& view, bool transpose, bool left, const Shape& batch_shape) {
  const int rank = view.shape.rank();
  if (rank == 1) {
    const Strides none = Strides::filled(batch_shape.rank(), 0);
    if (left) return {1, view.shape[0], 0, view.strides[0], none};
    return {view.shape[0], 1, view.strides[0], 0, none};
  }
  const int r = transpose ? rank - 1 : rank - 2;
  const int c = transpose ? rank - 2 : rank - 1;
  const auto lead = static_cast<std::size_t>(rank - 2);
  const Strides strides = broadcast_strides(Shape(view.shape.span().first(lead)),
                                            Strides(view.strides.span().first(lead)), batch_shape);
  return {view.shape[r], view.shape[c], view.strides[r], view.strides[c], strides};
}

Shape batch_shape_of(const KernelCall& call) {
  const int a_rank = call.inputs[0].shape.rank();
  const int b_rank = call.inputs[1].shape.rank();
  const int matrix_axes = (a_rank > 1 ? 1 : 0) + (b_rank > 1 ? 1 : 0);
  const Shape& out = call.outputs[0].shape;
  return Shape(out.span().first(static_cast<std::size_t>(out.rank() - matrix_axes)));
}

bool all_zero(const Strides& strides) {
  return std::all_of(strides.begin(), strides.end(), [](std::int64_t s) { return s == 0; });
}

// A batch of a that lies in memory like more rows, against one b, is one tall product.
void join_batch(Batched& a, const Batched& b, Shape& batch) {
  std::int64_t stride = a.row_stride * a.rows;
  for (int i = batch.rank() - 1; i >= 0; --i) {
    if (batch[i] != 1 && a.batch[i] != stride) return;
    stride *= batch[i];
  }
  if (!all_zero(b.batch)) return;
  a.rows *= batch.numel();
  batch = {};
}

template <class T>
void run_matmul(const KernelCall& call) {
  const MatmulAttrs& attrs = call.attrs.as<MatmulAttrs>();
  Shape batch = batch_shape_of(call);
  Batched a = batched(call.inputs[0], attrs.transpose_a, true, batch);
  const Batched b = batched(call.inputs[1], attrs.transpose_b, false, batch);
  if (call.outputs[0].numel() == 0) return;
  join_batch(a, b, batch);
  Shape index = Shape::filled(batch.rank(), 0);
  T* c = call.outputs[0].as<T>();
  for (std::int64_t n = batch.numel(); n > 0; --n) {
    std::int64_t a_offset = 0, b_offset = 0;
    for (int i = 0; i < batch.rank(); ++i) {
      a_offset += index[i] * a.batch[i];
      b_offset += index[i] * b.batch[i];
    }
    gemm(Matrix<T>{call.inputs[0].as<T>() + a_offset, a.rows, a.columns, a.row_stride,
                   a.column_stride},
         Matrix<T>{call.inputs[1].as<T>() + b_offset, b.rows, b.columns, b.row_stride,
                   b.column_stride},
         c);
    c += a.rows * b.columns;
    for (int i = batch.rank() - 1; i >= 0 && ++index[i] == batch[i]; --i) index[i] = 0;
  }
}

}  // namespace

std::span<const KernelCandidate> matmul_kernels() {
  static const KernelCandidate kernels[] = {
      {"sgemm", {DType::float32}, run_matmul<float>, nullptr, true},
      {"blocked", {DType::float64}, run_matmul<double>, nullptr, true},
      {"blocked", {DType::int8}, run_matmul<std::int8_t>, nullptr, true},
      {"blocked", {DType::uint8}, run_matmul<std::uint8_t>, nullptr, true},
      {"blocked", {DType::int16}, run_matmul<std::int16_t>, nullptr, true},
      {"blocked", {DType::int32}, run_matmul<std::int32_t>, nullptr, true},
      {"blocked", {DType::int64}, run_matmul<std::int64_t>, nullptr, true},
  };
  return kernels;
}

}  // namespace lockstep::kernels
