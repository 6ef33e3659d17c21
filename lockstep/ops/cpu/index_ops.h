// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> embedding();
std::span<const KernelCandidate> embedding_backward();
std::span<const KernelCandidate> take();
std::span<const KernelCandidate> take_backward();
std::span<const KernelCandidate> gather();
std::span<const KernelCandidate> pick();
std::span<const KernelCandidate> scatter_add();
std::span<const KernelCandidate> scatter();
std::span<const KernelCandidate> one_hot();
std::span<const KernelCandidate> ravel_index();

}  // namespace lockstep::kernels
