// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/tensor/philox.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

// The key of random ops as a tensor (int64 [3]: seed, step, shard), so that a compiled graph can
// take it as an input. `use` tells apart the draws made under one key.
Tensor random_key(std::uint64_t seed, std::uint32_t step = 0, std::uint32_t shard = 0);

// Gives the random ops of this thread their key, with use numbers counted from 0. Scopes nest.
// Without a scope a draw is an InvalidArgument: it would depend on what was drawn before.
class RandomScope {
 public:
  explicit RandomScope(Tensor key);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  // The innermost scope's key and next use number, for a draw that `op` makes.
  struct Draw {
    Tensor key;
    std::int64_t use;
  };
  static Draw next(const char* op = "draw");

 private:
  Tensor key_;
  std::int64_t uses_ = 0;
  RandomScope* outer_;
};

// Element i is made of the key, the use and i alone (tensor/philox.h): the first ten of a thousand
// are the same as ten. Normals come in pairs (Box-Muller); integers take two words each.

// low <= value < high
Tensor uniform(const Shape& shape, double low = 0.0, double high = 1.0,
               DType dtype = DType::float32);
Tensor normal(const Shape& shape, double mean = 0.0, double stddev = 1.0,
              DType dtype = DType::float32);
Tensor bernoulli(const Shape& shape, double p = 0.5, DType dtype = DType::float32);
// low <= value < high
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype = DType::int64);
// 0..n-1 in random order, int64.
Tensor permutation(std::int64_t n);
// Draws class numbers (int64) from logits [..., classes], whose softmax is the probabilities:
// [..., count]. Without replacement no class is drawn twice.
Tensor categorical(const Tensor& logits, std::int64_t count = 1, bool replacement = true);
// The same from probabilities, 0 or more, which need not add up to 1.
Tensor multinomial(const Tensor& probabilities, std::int64_t count = 1, bool replacement = true);

// Zeroes elements with probability p and scales the others by 1 / (1 - p), in any mode;
// nn/functional.h has the one that honours autograd's.
Tensor dropout(const Tensor& x, double p);

}  // namespace lockstep
