// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> max_pool();
std::span<const KernelCandidate> max_pool_backward();
std::span<const KernelCandidate> max_pool_gather();
std::span<const KernelCandidate> avg_pool();
std::span<const KernelCandidate> avg_pool_backward();
std::span<const KernelCandidate> adaptive_avg_pool();
std::span<const KernelCandidate> adaptive_avg_pool_backward();
std::span<const KernelCandidate> adaptive_max_pool();

// Ours, for blocked layouts.
std::unique_ptr<PreparedKernel> prepare_blocked_max_pool(const KernelRequest& request,
                                                         std::string& declined);
std::unique_ptr<PreparedKernel> prepare_blocked_max_pool_backward(const KernelRequest& request,
                                                                  std::string& declined);

// oneDNN's. Its forward max pool loses NaN and makes -inf finite, so it is not here.
std::unique_ptr<PreparedKernel> prepare_max_pool_backward(const KernelRequest& request,
                                                          std::string& declined);
std::unique_ptr<PreparedKernel> prepare_avg_pool(const KernelRequest& request,
                                                 std::string& declined);
std::unique_ptr<PreparedKernel> prepare_avg_pool_backward(const KernelRequest& request,
                                                          std::string& declined);

}  // namespace lockstep::kernels
