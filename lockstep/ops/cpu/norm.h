// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> batch_norm_kernels();
std::span<const KernelCandidate> batch_norm_backward_kernels();
std::span<const KernelCandidate> batch_norm_inference_kernels();
std::span<const KernelCandidate> layer_norm_kernels();
std::span<const KernelCandidate> layer_norm_backward_kernels();

// oneDNN's, float32.
std::unique_ptr<PreparedKernel> prepare_batch_norm(const KernelRequest& request,
                                                   std::string& declined);
std::unique_ptr<PreparedKernel> prepare_batch_norm_backward(const KernelRequest& request,
                                                            std::string& declined);
std::unique_ptr<PreparedKernel> prepare_batch_norm_inference(const KernelRequest& request,
                                                             std::string& declined);

}  // namespace lockstep::kernels
