// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"

// Attributes of the random and dropout families.
namespace lockstep {

// What all of them end with.
template <class F>
void visit_use(F& f, std::int64_t& use) {
  f("use", use, "tells apart the draws made under one key");
}

struct UniformAttrs {
  Ints shape;
  double low = 0.0;
  double high = 1.0;
  DType dtype = DType::float32;
  std::int64_t use = 0;
  template <class F>
  void visit(F&& f) {
    f("shape", shape, "the result's sizes");
    f("low", low, "the smallest value");
    f("high", high, "values stay below this");
    f("dtype", dtype, "a floating dtype");
    visit_use(f, use);
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
    f("shape", shape, "the result's sizes");
    f("mean", mean, "the middle of the distribution");
    f("stddev", stddev, "its standard deviation, 0 or more");
    f("dtype", dtype, "a floating dtype");
    visit_use(f, use);
  }
};

struct BernoulliAttrs {
  Ints shape;
  double p = 0.5;
  DType dtype = DType::float32;
  std::int64_t use = 0;
  template <class F>
  void visit(F&& f) {
    f("shape", shape, "the result's sizes");
    f("p", p, "the probability of a 1");
    f("dtype", dtype, "the result's dtype");
    visit_use(f, use);
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
    f("shape", shape, "the result's sizes");
    f("low", low, "the smallest value");
    f("high", high, "one above the largest value");
    f("dtype", dtype, "the result's dtype; it must hold low and high - 1");
    visit_use(f, use);
  }
};

struct PermutationAttrs {
  std::int64_t n = 0;
  std::int64_t use = 0;
  template <class F>
  void visit(F&& f) {
    f("n", n, "how many numbers there are");
    visit_use(f, use);
  }
};

struct CategoricalAttrs {
  std::int64_t count = 1;
  bool replacement = true;
  std::int64_t use = 0;
  template <class F>
  void visit(F&& f) {
    f("count", count, "how many classes are drawn from each row");
    f("replacement", replacement, "whether a class may be drawn more than once");
    f("use", use, "tells apart the draws made under one key");
  }
};

struct DropoutAttrs {
  double p = 0.5;
  std::int64_t use = 0;
  template <class F>
  void visit(F&& f) {
    f("p", p, "the probability of a zero, below 1");
    visit_use(f, use);
  }
};

}  // namespace lockstep
