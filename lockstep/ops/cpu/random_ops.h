// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"
#include "lockstep/tensor/philox.h"

namespace lockstep {

struct UniformAttrs {
  Ints shape;
  double low = 0.0;
  double high = 1.0;
  DType dtype = DType::float32;
  std::int64_t use = 0;
  template <class F>
  void visit(F&& f) {
    f("shape", shape);
    f("low", low);
    f("high", high);
    f("dtype", dtype);
    f("use", use);
  }
};

struct NormalAttrs {
  Ints shape;
  double mean = 0.0;
  double stddev = 1.0;
  DType dtype = DType::float32;
  std::int64_t use = 0;
  template <class F>
  void visit(F&& f) {
    f("shape", shape);
    f("mean", mean);
    f("stddev", stddev);
    f("dtype", dtype);
    f("use", use);
  }
};

struct BernoulliAttrs {
  Ints shape;
  double p = 0.5;
  DType dtype = DType::float32;
  std::int64_t use = 0;
  template <class F>
  void visit(F&& f) {
    f("shape", shape);
    f("p", p);
    f("dtype", dtype);
    f("use", use);
  }
};

struct RandintAttrs {
  Ints shape;
  std::int64_t low = 0;
  std::int64_t high = 1;
  DType dtype = DType::int64;
  std::int64_t use = 0;
  template <class F>
  void visit(F&& f) {
    f("shape", shape);
    f("low", low);
    f("high", high);
    f("dtype", dtype);
    f("use", use);
  }
};

struct PermutationAttrs {
  std::int64_t n = 0;
  std::int64_t use = 0;
  template <class F>
  void visit(F&& f) {
    f("n", n);
    f("use", use);
  }
};

struct DropoutAttrs {
  double p = 0.5;
  std::int64_t use = 0;
  template <class F>
  void visit(F&& f) {
    f("p", p);
    f("use", use);
  }
};

namespace kernels {

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
std::span<const KernelCandidate> dropout_kernels();

}  // namespace kernels
}  // namespace lockstep
