// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/sgemm.h"

#include <dnnl.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/machine_limits.h"
#include "lockstep/ops/instruction_set.h"

namespace lockstep::kernels {
namespace {

// The library wants row strides of at least 1, also of matrices with no columns.
std::int64_t stride_of(Rows x) { return std::max<std::int64_t>(x.stride, 1); }

// The library packs operands into memory of its own.
[[noreturn]] void fail(dnnl_status_t status, const Product& p) {
  check(status == dnnl_out_of_memory, "sgemm refused its arguments");
  const std::int64_t floats = p.m * p.k + p.k * p.n + p.m * p.n;
  const std::string limits = memory_limits_text();
  throw OutOfMemory(
      "sgemm: there is not enough memory to multiply [{}, {}] by [{}, {}], {} bytes{}{}", p.m, p.k,
      p.k, p.n, floats * static_cast<std::int64_t>(sizeof(float)), limits.empty() ? "" : ": ",
      limits);
}

}  // namespace

void sgemm(const Product& p, Rows a, Rows b, Rows c) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    if (p.beta == 0.0f)
      for (std::int64_t i = 0; i < p.m; ++i) std::fill_n(c.row(i), p.n, 0.0f);
    return;
  }
  settle_instruction_set();
  const dnnl_status_t status =
      dnnl_sgemm(p.transpose_a, p.transpose_b, p.m, p.n, p.k, p.alpha, a.data, stride_of(a), b.data,
                 stride_of(b), p.beta, c.data, stride_of(c));
  if (status != dnnl_success) fail(status, p);
}

}  // namespace lockstep::kernels
