// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::kernels {

// GFLOP/s of oneDNN's own float32 matrix product, 1024 x 1024 x 1024 on one thread, over at least
// `seconds`: what this machine can do at most.
double sgemm_gflops(double seconds);

}  // namespace lockstep::kernels
