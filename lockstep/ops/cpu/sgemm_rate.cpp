// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/sgemm_rate.h"

#include <dnnl.h>

#include <chrono>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/ops/cpu/dnnl_common.h"
#include "lockstep/ops/instruction_set.h"

namespace lockstep::kernels {
namespace {

constexpr dnnl_dim_t kSize = 1024;
constexpr double kFlops = 2.0 * kSize * kSize * kSize;

}  // namespace

double sgemm_gflops(double seconds) {
  settle_instruction_set();
  const OneThread one_thread;
  const std::vector<float> a(kSize * kSize, 0.5F), b(kSize * kSize, 0.25F);
  std::vector<float> c(kSize * kSize);
  const auto multiply = [&] {
    const dnnl_status_t status = dnnl_sgemm('N', 'N', kSize, kSize, kSize, 1.0F, a.data(), kSize,
                                            b.data(), kSize, 0.0F, c.data(), kSize);
    check(status == dnnl_success && c.back() == kSize * 0.125F, "dnnl_sgemm is wrong");
  };
  multiply();
  const auto start = std::chrono::steady_clock::now();
  for (double products = 1;; ++products) {
    multiply();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    if (spent.count() >= seconds) return products * kFlops / spent.count() * 1e-9;
  }
}

}  // namespace lockstep::kernels
