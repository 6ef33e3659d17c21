// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/gemm.h"

#include <optional>

#include "lockstep/ops/cpu/dnnl_common.h"

namespace lockstep::kernels {
namespace {

struct GemmOperand {
  char transposed;  // 'N' or 'T'
  const float* data;
  std::int64_t leading;
};

// Nothing when neither axis is contiguous.
std::optional<GemmOperand> as_gemm_operand(const Matrix<float>& m) {
  if ((m.column_stride == 1 || m.columns == 1) && (m.row_stride >= m.columns || m.rows == 1))
    return GemmOperand{'N', m.data, m.rows == 1 ? m.columns : m.row_stride};
  if ((m.row_stride == 1 || m.rows == 1) && (m.column_stride >= m.rows || m.columns == 1))
    return GemmOperand{'T', m.data, m.columns == 1 ? m.rows : m.column_stride};
  return std::nullopt;
}

GemmOperand operand_or_copy(const Matrix<float>& m, std::vector<float>& storage) {
  if (const auto operand = as_gemm_operand(m)) return *operand;
  storage.resize(static_cast<std::size_t>(m.rows * m.columns));
  for (std::int64_t i = 0; i < m.rows; ++i)
    for (std::int64_t j = 0; j < m.columns; ++j)
      storage[static_cast<std::size_t>(i * m.columns + j)] = m.at(i, j);
  return {'N', storage.data(), m.columns};
}

}  // namespace

void gemm(const Matrix<float>& a, const Matrix<float>& b, float* c) {
  if (a.rows == 0 || b.columns == 0) return;
  if (a.columns == 0) {
    std::fill_n(c, a.rows * b.columns, 0.0f);
    return;
  }
  const OneThread one;
  std::vector<float> a_copy, b_copy;
  const GemmOperand left = operand_or_copy(a, a_copy);
  const GemmOperand right = operand_or_copy(b, b_copy);
  const dnnl_status_t status =
      dnnl_sgemm(left.transposed, right.transposed, a.rows, b.columns, a.columns, 1.0f, left.data,
                 left.leading, right.data, right.leading, 0.0f, c, b.columns);
  if (status != dnnl_success) rethrow(dnnl::error(status, "sgemm"), "matmul");
}

}  // namespace lockstep::kernels
