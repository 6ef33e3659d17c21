// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"
#include "lockstep/tensor/philox.h"

namespace lockstep::kernels {

// Random words are made this many at a time.
inline constexpr std::int64_t kRandomChunk = 1024;

RandomKey key_from(const TensorView& key, std::int64_t use);
// The random bits of kRandomChunk elements from `first` (a multiple of 4) on.
void fill_random_bits(const RandomKey& key, std::uint64_t first, std::uint32_t* bits);
// Bits below this mean yes, with probability p.
std::uint64_t bernoulli_threshold(double p);

std::span<const KernelCandidate> uniform_kernels();
std::span<const KernelCandidate> normal_kernels();
std::span<const KernelCandidate> bernoulli_kernels();
std::span<const KernelCandidate> randint_kernels();
std::span<const KernelCandidate> permutation_kernels();
std::span<const KernelCandidate> categorical_kernels();
std::span<const KernelCandidate> dropout_kernels();

}  // namespace lockstep::kernels
