// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/sgemm.h"

#include <dnnl.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/ops/instruction_set.h"

namespace lockstep::kernels {
namespace {

// The library wants row strides of at least 1, also of matrices with no columns.
std::int64_t stride_of(Rows x) { return std::max<std::int64_t>(x.stride, 1); }

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
  check(status == dnnl_success, "sgemm refused its arguments");
}

}  // namespace lockstep::kernels
