// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "lockstep/graph/graph.h"

namespace lockstep::testing {

using Tensors = std::vector<Tensor>;

// Of the absolute values; infinite when one is not finite.
double largest_of(const Tensor& tensor);

// What a step computes from earlier values. `input` counts the graph's inputs; a body without
// `from` gives a constant.
struct RandomStep {
  std::vector<std::size_t> from;
  std::function<Tensors(const Tensors&)> body;
  std::ptrdiff_t input = -1;
};

// A small float32 program that can be run on tensors, recorded and traced.
struct RandomProgram {
  Tensors inputs;
  std::vector<RandomStep> steps;

  // Every value, in the order of the steps.
  Tensors values(const Tensors& inputs) const;
  Infos input_infos() const;
};

// Draws programs whose results and gradients hardly move when a value moves a little, so that
// different orders of summation give nearly the same: no comparison is decided by rounding.
class ProgramDrawer {
 public:
  explicit ProgramDrawer(std::uint64_t seed) : generator_(seed) {}

  // With `smooth`, no step that jumps: it then stays well-behaved from run to run.
  RandomProgram draw(int steps, bool smooth);

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(bound));
  }
  std::size_t index_below(std::size_t bound) {
    return static_cast<std::size_t>(generator_() % bound);
  }
  bool coin() { return below(2) == 0; }
  Tensor random(const Shape& shape, double scale = 1.0);

 private:
  RandomStep draw_step(bool smooth);
  RandomStep unary();
  RandomStep binary();
  RandomStep window();
  RandomStep join();
  RandomStep reduction();
  RandomStep product();
  RandomStep convolution();
  RandomStep spatial();
  RandomStep norm();
  RandomStep jump();
  RandomStep image_jump();

  // A value that has been drawn so far, rather a late one.
  std::size_t any();
  std::size_t any_of_rank(int rank);
  std::size_t image();
  // A fresh input or constant.
  std::size_t leaf(const Shape& shape, double scale = 1.0);
  std::int64_t channels();
  void input(const Tensor& value);
  bool try_to_add(RandomStep step);
  void add(RandomStep step, Tensors results);
  // Whether results and gradients stay when the arguments move a little.
  bool is_settled(const RandomStep& step, const Tensors& arguments, const Tensors& results);

  std::mt19937_64 generator_;
  RandomProgram program_;
  Tensors values_;
};

}  // namespace lockstep::testing
