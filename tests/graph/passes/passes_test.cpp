// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/passes/passes.h"

#include "lockstep/graph/differentiate.h"
#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/ops.h"
#include "tests/graph/graphs.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;

TEST(Simplify, FoldsConstantsAndRemovesIdentities) {
  const Graph graph = trace(
      [](const Tensors& in) {
        const Tensor two = add(Tensor::scalar(1.0), Tensor::scalar(1.0));
        const Tensor same = multiply(subtract(in[0], 0.0), 1.0);
        return Tensors{multiply(reshape(same, {2, 3}), two)};
      },
      {floats({2, 3})});
  const Graph simple = passes::simplify(graph);
  EXPECT_EQ(count_ops(simple, "add") + count_ops(simple, "subtract"), 0);
  EXPECT_EQ(count_ops(simple, "reshape"), 0);
  EXPECT_EQ(count_ops(simple, "multiply"), 1);
  expect_same_results(graph, simple, 0.0);
}

TEST(Simplify, ComputesCommonSubexpressionsOnce) {
  const Graph graph = trace(
      [](const Tensors& in) {
        return Tensors{add(softmax(in[0]), exp(softmax(in[0]))), softmax(in[0], 0)};
      },
      {floats({4, 4})});
  const Graph simple = passes::simplify(graph);
  EXPECT_EQ(count_ops(graph, "softmax"), 3);
  EXPECT_EQ(count_ops(simple, "softmax"), 2);
  expect_same_results(graph, simple, 0.0);
}

TEST(Simplify, DropsWhatNobodyReadsAndKeepsEveryInput) {
  const Graph graph = trace(
      [](const Tensors& in) {
        exp(in[1]);
        return Tensors{tanh(in[0])};
      },
      {floats({2}), floats({2})});
  const Graph simple = passes::simplify(graph);
  EXPECT_EQ(count_ops(simple, "exp"), 0);
  EXPECT_EQ(simple.inputs().size(), 2u);
}

TEST(Simplify, KeepsAnAdditionOfZeroThatBroadcasts) {
  const Graph graph = trace(
      [](const Tensors& in) {
        return Tensors{add(in[0], Tensor::zeros({3, 2}))};
      },
      {floats({2})});
  expect_same_results(graph, passes::simplify(graph), 0.0);
}

TEST(FuseActivations, PutsReluIntoConvAndDense) {
  const Graph graph = trace(
      [](const Tensors& in) {
        const Tensor y = relu(conv(in[0], in[1], {}, {.padding = {1}}));
        return Tensors{relu(dense(reshape(y, {2, -1}), in[2]))};
      },
      {floats({2, 3, 4, 4}), floats({5, 3, 3, 3}), floats({6, 80})});
  const Graph fused = passes::fuse_activations(graph);
  EXPECT_EQ(count_ops(fused, "relu"), 0);
  expect_same_results(graph, fused);
}

TEST(FuseActivations, LeavesAReluWhoseInputIsReadElsewhere) {
  const Graph graph = trace(
      [](const Tensors& in) {
        const Tensor y = dense(in[0], in[1]);
        return Tensors{relu(y), y};
      },
      {floats({2, 3}), floats({4, 3})});
  EXPECT_EQ(count_ops(passes::fuse_activations(graph), "relu"), 1);
}

Graph norm_graph() {
  const Graph graph = trace(
      [](const Tensors& in) {
        const Tensor y = relu(batch_norm(in[0], in[1], in[2]).y);
        return Tensors{sum(square(conv(y, in[3])))};
      },
      {floats({4, 16, 5, 5}), floats({16}), floats({16}), floats({8, 16, 3, 3})});
  return differentiate(graph, 0, {0, 1, 2, 3});
}

TEST(FuseActivations, PutsReluIntoBatchNormBothWays) {
  const Graph fused = passes::fuse_activations(norm_graph());
  EXPECT_EQ(count_ops(fused, "relu"), 0);
  EXPECT_EQ(count_ops(fused, "relu_backward"), 0);
  expect_same_results(norm_graph(), fused, 1e-5);
}

TEST(Recompute, MakesTheNormsOutputAgainInTheBackwardPass) {
  const Graph fused = passes::fuse_activations(norm_graph());
  const Graph again = passes::recompute(fused);
  EXPECT_EQ(count_ops(again, "batch_norm_inference"), 1);
  expect_same_results(norm_graph(), again, 1e-5);
}

TEST(JoinSlices, TurnsPaddedSumsIntoOneConcat) {
  const Graph graph = trace(
      [](const Tensors& in) {
        const Tensor a = slice_axis(in[0], 1, 0, 2), b = slice_axis(in[0], 1, 2, 3),
                     c = slice_axis(in[0], 1, 3, 6);
        return Tensors{sum(multiply(sum(exp(a), {1}), multiply(sum(tanh(b), {1}), sum(c, {1}))))};
      },
      {floats({4, 6})});
  const Graph backward = differentiate(graph, 0, {0});
  const Graph joined = passes::simplify(passes::join_slices(backward));
  EXPECT_EQ(count_ops(backward, "slice_backward"), 3);
  EXPECT_EQ(count_ops(joined, "slice_backward"), 0);
  EXPECT_EQ(count_ops(joined, "concat"), 1);
  expect_same_results(backward, joined);
}

// Attention of one projection's three parts, taken as q, k and v in the given order.
Graph projected_attention(const std::vector<int>& order) {
  const Graph graph = trace(
      [&](const Tensors& in) {
        Tensors parts;
        for (const int i : order)
          parts.push_back(transpose(squeeze(slice_axis(in[0], 2, i, i + 1), {2}), {0, 2, 1, 3}));
        return Tensors{sum(exp(scaled_dot_product_attention(parts[0], parts[1], parts[2])))};
      },
      {floats({2, 5, 3, 2, 4})});
  return differentiate(graph, 0, {0});
}

TEST(JoinSlices, TakesTheTensorThatHoldsAllPartsInTheirOrder) {
  const Graph backward = projected_attention({0, 1, 2});
  const Graph joined = passes::simplify(passes::join_slices(backward));
  EXPECT_EQ(count_ops(backward, "slice_backward"), 3);
  EXPECT_EQ(count_ops(joined, "slice_backward") + count_ops(joined, "concat"), 0);
  expect_same_results(backward, joined);
}

TEST(JoinSlices, ConcatsPartsThatLieInAnotherOrder) {
  const Graph backward = projected_attention({1, 0, 2});
  const Graph joined = passes::simplify(passes::join_slices(backward));
  EXPECT_EQ(count_ops(joined, "concat"), 1);
  expect_same_results(backward, joined);
}

TEST(JoinSlices, LeavesSlicesThatOverlapOrLeaveAGap) {
  for (std::int64_t begin : {1, 3}) {
    const Graph graph = trace(
        [&](const Tensors& in) {
          return Tensors{sum(exp(slice_axis(in[0], 0, 0, 2))) +
                         sum(exp(slice_axis(in[0], 0, begin, 6)))};
        },
        {floats({6})});
    const Graph backward = differentiate(graph, 0, {0});
    const Graph joined = passes::join_slices(backward);
    EXPECT_EQ(count_ops(joined, "concat"), 0);
    expect_same_results(backward, joined);
  }
}

TEST(FuseElementwise, MakesOneNodeOfAChain) {
  const Graph graph = trace(
      [](const Tensors& in) {
        return Tensors{multiply(tanh(add(in[0], in[1])), sigmoid(multiply(in[0], 3.0)))};
      },
      {floats({40, 50}), floats({40, 50})});
  const Graph fused = passes::fuse_elementwise(graph);
  EXPECT_EQ(count_ops(fused, "fused_elementwise"), 1);
  EXPECT_EQ(count_ops(fused, "tanh") + count_ops(fused, "multiply"), 0);
  expect_same_results(graph, fused, 0.0);
}

TEST(FuseElementwise, KeepsAValueThatIsReadOutsideTheChain) {
  const Graph graph = trace(
      [](const Tensors& in) {
        const Tensor inner = exp(add(in[0], 1.0));
        return Tensors{tanh(inner), sum(inner)};
      },
      {floats({100})});
  expect_same_results(graph, passes::fuse_elementwise(graph), 1e-6);
}

TEST(MixPrecision, ConvertsProductsOnly) {
  const Graph graph = trace(
      [](const Tensors& in) { return Tensors{softmax(dense(tanh(dense(in[0], in[1])), in[2]))}; },
      {floats({4, 8}), floats({8, 8}), floats({3, 8})});
  const Graph mixed = passes::mix_precision(graph, DType::bfloat16);
  for (const Node& node : mixed.nodes()) {
    if (node.op == nullptr || node.op->name == "cast") continue;
    const DType expected = node.op->name == "dense" ? DType::bfloat16 : DType::float32;
    EXPECT_EQ(node.outputs[0].dtype, expected);
  }
  expect_same_results(graph, mixed, 0.02);
}

// w' = w - (w + x), with work behind it that does not need w.
Graph update_graph() {
  Graph graph;
  Tracer tracer(graph);
  const Tensor x = tracer.input(floats({2}), "x");
  const Tensor w = tracer.input(floats({2}), "w");
  const InterceptScope scope(&tracer);
  const Tensor early = add(w, x);
  const Tensor late = exp(exp(x));
  const Tensor updated = subtract(w, early);
  graph.add_output(tracer.value(late));
  graph.add_output(tracer.value(updated));
  return graph;
}

TEST(Schedule, MovesAnUpdateUpToWhereItsInputsAreReady) {
  const CompileOptions options{.states = {1}, .carries = {{.input = 1, .output = 1}}};
  const Graph scheduled = passes::schedule(update_graph(), options);
  EXPECT_LT(scheduled.outputs()[1].node, scheduled.outputs()[0].node);
  expect_same_results(update_graph(), scheduled, 0.0);
}

TEST(Schedule, KeepsAnUpdateBehindTheLastReaderOfItsState) {
  const Graph graph = trace(
      [](const Tensors& in) {
        const Tensor updated = multiply(in[0], 2.0);
        return Tensors{exp(in[0]), updated};
      },
      {floats({2})});
  Executable executable =
      Executable::compile(graph, {.states = {0}, .carries = {{.input = 0, .output = 1}}});
  executable.set_state(0, Tensor::full({2}, 1.0));
  EXPECT_FLOAT_EQ(executable.run({})[0].to_vector<float>()[0], std::exp(1.0f));
  EXPECT_FLOAT_EQ(executable.run({})[0].to_vector<float>()[0], std::exp(2.0f));
}

TEST(Plan, GivesBuffersThatNeverMeetTheSamePlace) {
  const Graph graph = trace(
      [](const Tensors& in) {
        Tensor y = in[0];
        for (int i = 0; i < 8; ++i) y = softmax(y);
        return Tensors{sum(y)};
      },
      {floats({64, 64})});
  Program program = passes::lower(graph, {});
  passes::plan_memory(program);
  EXPECT_LE(program.arena_bytes, std::size_t{2} * 64 * 64 * 4);
}

TEST(Plan, KeepsBuffersThatLiveTogetherApart) {
  Program program = passes::lower(norm_graph(), {});
  passes::plan_memory(program);
  for (const Buffer& a : program.buffers)
    for (const Buffer& b : program.buffers) {
      if (&a == &b || a.kind != BufferKind::arena || b.kind != BufferKind::arena) continue;
      if (a.first_step < 0 || b.first_step < 0) continue;
      const bool together = a.first_step <= b.last_step && b.first_step <= a.last_step;
      const bool apart = a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset;
      EXPECT_TRUE(!together || apart || a.bytes == 0 || b.bytes == 0);
    }
}

TEST(Verify, NamesThePassThatBrokeAGraph) {
  Graph graph;
  graph.add_input(floats({2}), "x");
  graph.add_node(get_op("relu"), {{0, 0}});
  EXPECT_NO_THROW(passes::verify(graph, "nothing"));
  Graph broken = graph;
  const_cast<Node&>(broken.node(1)).outputs[0].shape = {3};
  try {
    passes::verify(broken, "vandalism");
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("after vandalism: node %1: relu infers other"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace lockstep::testing
