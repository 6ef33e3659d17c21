// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> conv();
std::span<const KernelCandidate> conv_backward_data();
std::span<const KernelCandidate> conv_backward_weights();

// oneDNN's.
std::unique_ptr<PreparedKernel> prepare_conv(const KernelRequest& request, std::string& declined);
std::unique_ptr<PreparedKernel> prepare_conv_backward_data(const KernelRequest& request,
                                                           std::string& declined);
std::unique_ptr<PreparedKernel> prepare_conv_backward_weights(const KernelRequest& request,
                                                              std::string& declined);

}  // namespace lockstep::kernels
