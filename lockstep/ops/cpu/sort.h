// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

std::span<const KernelCandidate> sort();
std::span<const KernelCandidate> argsort();
std::span<const KernelCandidate> topk();
std::span<const KernelCandidate> median();

}  // namespace lockstep::kernels
