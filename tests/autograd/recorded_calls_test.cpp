// SPDX-License-Identifier: Apache-2.0
#include "lockstep/autograd/recorded_calls.h"

#include <gtest/gtest.h>

#include "lockstep/graph/recorded_function.h"
#include "lockstep/ops/ops.h"
#include "tests/autograd/leaf.h"

namespace lockstep::autograd {
namespace {

using testing::leaf;

std::vector<std::string> names_of(const RecordedCalls& recorded) {
  std::vector<std::string> names;
  for (const RecordedCall& call : recorded.calls)
    names.emplace_back(call.op == nullptr ? "function" : call.op->name);
  return names;
}

TEST(RecordedCalls, ListTheOpsThatAHeadWasComputedBy) {
  const Tensor x = leaf({1, 2}), c = Tensor::from(std::vector<double>{3, 4}, {2});
  Tensor y;
  {
    const RecordScope record;
    const Tensor other = exp(x);  // no part of y
    const Tensor first = multiply(x, c), second = multiply(x, c);
    y = add(first, second);
  }
  const RecordedCalls recorded = recorded_calls({y});
  EXPECT_EQ(names_of(recorded), (std::vector<std::string>{"multiply", "multiply", "add"}));
  ASSERT_EQ(recorded.variables.size(), 2u);
  EXPECT_EQ(recorded.variables[0].identity(), x.identity());
  EXPECT_EQ(recorded.calls[1].inputs[1].call, -1);
  EXPECT_EQ(recorded.calls[1].inputs[1].place, 1u);
  EXPECT_EQ(recorded.calls[2].inputs[1].call, 1);
  EXPECT_EQ(recorded.heads[0].call, 2);
}

TEST(RecordedCalls, HaveWhatHasNoGradientToo) {
  const Tensor x = leaf({-1, 2}), c = Tensor::from(std::vector<double>{0, 0}, {2});
  Tensor y;
  {
    const RecordScope record;
    y = where(greater(x, c), x, c);
  }
  const RecordedCalls recorded = recorded_calls({y});
  EXPECT_EQ(names_of(recorded), (std::vector<std::string>{"greater", "where"}));
  EXPECT_EQ(recorded.calls[0].inputs.size(), 2u);
  EXPECT_EQ(recorded.variables.size(), 2u);
}

TEST(RecordedCalls, ALeafIsAVariableAndAFreedRecordIsAnError) {
  const Tensor x = leaf({1, 2});
  EXPECT_TRUE(recorded_calls({x}).calls.empty());
  EXPECT_EQ(recorded_calls({x}).heads[0].call, -1);
  Tensor y;
  {
    const RecordScope record;
    y = exp(x);
  }
  backward(y);
  EXPECT_THROW(recorded_calls({y}), InvalidArgument);
}

TEST(RecordedCalls, ACompiledFunctionHasItsGraph) {
  const Tensor x = leaf({1, 2});
  RecordedFunction function(
      [](const std::vector<Tensor>& inputs) {
        return RecordedFunction::Results{{multiply(exp(inputs[0]), inputs[0])}, {}};
      },
      {x.info()}, {0});
  Tensor y;
  {
    const RecordScope record;
    y = function({x}).outputs[0];
  }
  const RecordedCalls recorded = recorded_calls({y});
  ASSERT_EQ(names_of(recorded), (std::vector<std::string>{"function"}));
  const Graph* graph = graph_of_call(*recorded.calls[0].function);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->node(graph->outputs()[0]).op->name, "multiply");
}

}  // namespace
}  // namespace lockstep::autograd
