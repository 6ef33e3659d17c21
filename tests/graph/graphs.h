// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lockstep/graph/trace.h"
#include "tests/ops/calls.h"

namespace lockstep::testing {

inline TensorInfo floats(const Shape& shape) { return {shape, DType::float32, {}}; }

inline std::vector<Tensor> random_inputs(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (const TensorInfo& info : graph.input_infos())
    inputs.push_back(random_floats(info.shape, inputs.size() + 1));
  return inputs;
}

inline int count_ops(const Graph& graph, std::string_view op) {
  return static_cast<int>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(),
                    [&](const Node& node) { return node.op != nullptr && node.op->name == op; }));
}

inline void expect_close(const Tensor& got, const Tensor& expected, double tolerance) {
  ASSERT_EQ(got.info(), expected.info());
  const std::vector<double> x = got.to_vector<double>();
  const std::vector<double> y = expected.to_vector<double>();
  double largest = 1.0;
  for (double value : y) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(x[i], y[i], tolerance * largest) << "element " << i;
}

inline void expect_all_close(const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                             double tolerance, const std::string& what) {
  SCOPED_TRACE(what);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(fmt::format("number {}", i));
    expect_close(got[i], expected[i], tolerance);
  }
}

inline void expect_same_bits(const std::vector<Tensor>& got, const std::vector<Tensor>& expected,
                             const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i].to_vector<float>(), expected[i].to_vector<float>()) << what << ' ' << i;
}

// What a pass may change is how a graph computes, never what.
inline void expect_same_results(const Graph& before, const Graph& after, double tolerance = 2e-6) {
  const std::vector<Tensor> inputs = random_inputs(before);
  const std::vector<Tensor> expected = interpret(before, inputs);
  const std::vector<Tensor> got = interpret(after, inputs);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) expect_close(got[i], expected[i], tolerance);
}

}  // namespace lockstep::testing
