// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/symbol.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "lockstep/base/file.h"
#include "lockstep/ops/ops.h"
#include "lockstep/tensor/trace_value.h"

namespace lockstep {
namespace {

TensorInfo floats(const Shape& shape) { return {shape, DType::float32, {}}; }

// relu(x w^T) b, as symbols.
Symbol network() {
  const Symbol x = Symbol::variable("x");
  const Symbol hidden = Symbol::apply("dense", {x, Symbol::variable("w")}, {}, "fc");
  const Symbol active = Symbol::apply("relu", {hidden}, {}, "act");
  return Symbol::apply("multiply", {active, Symbol::variable("b")}, {}, "scaled");
}

const InfoMap kShapes{{"x", floats({2, 3})}, {"w", floats({4, 3})}, {"b", floats({4})}};

template <class E>
void expect_error(const std::function<void()>& body, const std::string& message) {
  try {
    body();
    FAIL() << "no error, expected: " << message;
  } catch (const E& error) {
    EXPECT_EQ(error.what(), message);
  }
}

TEST(Symbol, ListsArgumentsAndOutputs) {
  EXPECT_EQ(network().list_arguments(), (std::vector<std::string>{"x", "w", "b"}));
  EXPECT_EQ(network().list_outputs(), std::vector<std::string>{"scaled_output"});
}

TEST(Symbol, InfersShapesAndTypes) {
  const Symbol::Inferred inferred = network().infer(kShapes);
  EXPECT_EQ(inferred.outputs, Infos{floats({2, 4})});
  EXPECT_EQ(inferred.arguments.at("w"), floats({4, 3}));
}

TEST(Symbol, SaysWhichArgumentHasNoShape) {
  expect_error<InvalidArgument>(
      [] {
        network().infer({{"x", floats({2, 3})}});
      },
      "symbol: argument 'w' has no shape; give it when binding");
}

TEST(Symbol, PassesOnWhatAnOpRefuses) {
  InfoMap shapes = kShapes;
  shapes["x"] = floats({2, 5});
  expect_error<InvalidArgument>([&] { network().infer(shapes); },
                                "dense: weight has shape [4, 3], input has 5 features");
}

TEST(Symbol, RunsWhenBound) {
  BoundSymbol bound = network().bind(kShapes, {"b"});
  const Tensor x = Tensor::from<float>({1, 2, 3, -1, -2, -3}, {2, 3});
  const Tensor w = Tensor::from<float>({1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}, {4, 3});
  const Tensor b = Tensor::from<float>({1, 10, 100, 1000}, {4});
  const auto result = bound.run({{"x", x}, {"w", w}, {"b", b}});
  EXPECT_EQ(result.outputs[0].to_vector<float>(),
            (std::vector<float>{1, 20, 300, 6000, 0, 0, 0, 0}));
  EXPECT_EQ(result.gradients[0].to_vector<float>(), (std::vector<float>{1, 2, 3, 6}));
  expect_error<InvalidArgument>(
      [&] {
        bound.run({{"x", x}, {"w", w}});
      },
      "symbol: argument 'b' was not given");
}

TEST(Symbol, NamesAnArgumentThatDoesNotFitWhatWasBound) {
  BoundSymbol bound = network().bind(kShapes);
  TensorMap given{{"x", zeros({2, 3})}, {"w", zeros({4, 3})}, {"b", zeros({4})}};
  const auto run = [&] { bound.run(given); };
  run();
  given["w"] = zeros({3, 4});
  expect_error<InvalidArgument>(run,
                                "symbol: argument 'w' is float32[3, 4], bound as float32[4, 3]");
  given["w"] = Tensor();
  expect_error<InvalidArgument>(run, "symbol: argument 'w' is undefined, bound as float32[4, 3]");
  given["w"] = zeros({4, 3});
  given["bias"] = zeros({4});
  expect_error<InvalidArgument>(run, "symbol: there is no argument 'bias'");
  given.erase("bias");
  given["b"] = Tensor::symbolic(zeros({4}).info(), std::make_shared<TraceValue>());
  expect_error<InvalidArgument>(run,
                                "symbol: argument 'b' has no data: it stands for a graph value");
}

TEST(Symbol, ComposesByReplacingArguments) {
  const Symbol inner = Symbol::apply("exp", {Symbol::variable("z")});
  const Symbol whole = network().compose({{"b", inner}});
  EXPECT_EQ(whole.list_arguments(), (std::vector<std::string>{"x", "w", "z"}));
  EXPECT_EQ(network().list_arguments(), (std::vector<std::string>{"x", "w", "b"}));
  expect_error<NotFound>(
      [&] {
        network().compose({{"q", inner}});
      },
      "symbol: there is no argument 'q'");
}

TEST(Symbol, SurvivesJson) {
  const Symbol constant = Symbol::constant(Tensor::from<float>({1.5f, -2.5f}, {2}), "c");
  const Symbol clipped =
      Symbol::apply("clip", {Symbol::variable("x", floats({2}))},
                    {{"low", -1.0}, {"high", std::numeric_limits<double>::infinity()}});
  const Symbol parts = Symbol::group({Symbol::apply("add", {clipped, constant}), clipped});
  const std::string text = parts.to_json();
  const Symbol again = Symbol::from_json(text);
  EXPECT_EQ(again.to_json(), text);
  BoundSymbol bound = again.bind({});
  const auto result = bound.run({{"x", Tensor::from<float>({-7, 9}, {2})}});
  EXPECT_EQ(result.outputs[0].to_vector<float>(), (std::vector<float>{0.5f, 6.5f}));
  EXPECT_EQ(result.outputs[1].to_vector<float>(), (std::vector<float>{-1, 9}));
}

TEST(Symbol, SurvivesAFile) {
  const std::string path = ::testing::TempDir() + "symbol.json";
  network().save(path);
  EXPECT_EQ(Symbol::load(path).to_json(), network().to_json());
  std::remove(path.c_str());
  expect_error<NotFound>([&] { Symbol::load(path); },
                         path + ": cannot open: no such file or folder");
}

TEST(Symbol, TurnsATracedGraphIntoAFile) {
  const Graph graph = trace(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{sum(square(in[0]), {1})}; },
      {floats({2, 2})}, {"x"});
  const Symbol again = Symbol::from_json(Symbol::from_graph(graph).to_json());
  BoundSymbol bound = again.bind({});
  const auto result = bound.run({{"x", Tensor::from<float>({1, 2, 3, 4}, {2, 2})}});
  EXPECT_EQ(result.outputs[0].to_vector<float>(), (std::vector<float>{5, 25}));
}

struct Malformed {
  const char* what;
  const char* text;
  const char* message;
};

class MalformedGraphFile : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedGraphFile, IsRefusedWithTheFileTheNodeAndTheReason) {
  expect_error<Corrupt>([] { Symbol::from_json(GetParam().text, "g.json"); }, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, MalformedGraphFile,
    ::testing::Values(
        Malformed{"Truncated", R"({"format": "lockstep-graph", "version": 1, "nodes": [)",
                  "g.json: is not JSON, or ends early"},
        Malformed{"Foreign", R"({"nodes": []})", "g.json: is not a lockstep-graph file"},
        Malformed{"NewVersion", R"({"format": "lockstep-graph", "version": 9})",
                  "g.json: has version 9, this build reads 1 and 2"},
        Malformed{"OldAttention",
                  R"({"format": "lockstep-graph", "version": 1, "nodes": [
                      {"op": "variable", "name": "q"},
                      {"op": "attention", "name": "a", "inputs": [[0, 0], [0, 0], [0, 0]]}],
                      "outputs": [[1, 0]]})",
                  "g.json: node 1 'a': op 'attention' gives its heads in another order since "
                  "version 2: make the graph again"},
        Malformed{"NoOutputs", R"({"format": "lockstep-graph", "version": 1})",
                  "g.json: outputs: there are none"},
        Malformed{"UnknownOp",
                  R"({"format": "lockstep-graph", "version": 1,
                      "nodes": [{"op": "frobnicate", "name": "f", "inputs": []}]})",
                  "g.json: node 0 'f': there is no op named 'frobnicate'"},
        Malformed{"Cycle",
                  R"({"format": "lockstep-graph", "version": 1, "nodes": [
                      {"op": "relu", "name": "a", "inputs": [[1, 0]]},
                      {"op": "relu", "name": "b", "inputs": [[0, 0]]}], "outputs": [[1, 0]]})",
                  "g.json: node 0 'a': reads node 1, which does not come before it: a cycle, a "
                  "wrong order or a node that is missing"},
        Malformed{"UnknownAttribute",
                  R"({"format": "lockstep-graph", "version": 1, "nodes": [
                      {"op": "variable", "name": "x"},
                      {"op": "softmax", "name": "s", "attrs": {"axes": 1}, "inputs": [[0, 0]]}]})",
                  "g.json: node 1 's': softmax: unknown attribute 'axes' (it has: axis)"},
        Malformed{"AttributeType",
                  R"({"format": "lockstep-graph", "version": 1, "nodes": [
                      {"op": "variable", "name": "x"},
                      {"op": "softmax", "name": "s", "attrs": {"axis": true},
                       "inputs": [[0, 0]]}]})",
                  "g.json: node 1 's': softmax: attribute axis must be an integer, got true"},
        Malformed{"WrongCount",
                  R"({"format": "lockstep-graph", "version": 1, "nodes": [
                      {"op": "variable", "name": "x"},
                      {"op": "add", "name": "s", "inputs": [[0, 0]]}]})",
                  "g.json: node 1 's': add: takes 2 inputs, got 1"},
        Malformed{"ShortData",
                  R"({"format": "lockstep-graph", "version": 1, "nodes": [
                      {"op": "constant", "name": "c", "dtype": "float32", "shape": [2],
                       "data": "00000000"}]})",
                  "g.json: node 0 'c': data has 4 bytes, float32[2] needs 8"},
        Malformed{"ArgumentThatIsNoVariable",
                  R"({"format": "lockstep-graph", "version": 1, "nodes": [
                      {"op": "variable", "name": "x"},
                      {"op": "relu", "name": "r", "inputs": [[0, 0]]}],
                      "outputs": [[1, 0]], "arguments": [1]})",
                  "g.json: arguments: has 1, expected a variable's number"},
        Malformed{"ArgumentTwice",
                  R"({"format": "lockstep-graph", "version": 1, "nodes": [
                      {"op": "variable", "name": "x"}],
                      "outputs": [[0, 0]], "arguments": [0, 0]})",
                  "g.json: arguments: has 0 twice"},
        Malformed{"NegativeDevice",
                  R"({"format": "lockstep-graph", "version": 1, "nodes": [
                      {"op": "variable", "name": "x", "dtype": "float32", "shape": [2],
                       "device": -1}]})",
                  "g.json: node 0 'x': device is -1, expected cpu's number"},
        Malformed{"NegativeSize",
                  R"({"format": "lockstep-graph", "version": 1, "nodes": [
                      {"op": "variable", "name": "x", "dtype": "float32", "shape": [-2]}]})",
                  "g.json: node 0 'x': shape has the size -2"},
        Malformed{"TooManyElements",
                  R"({"format": "lockstep-graph", "version": 1, "nodes": [
                      {"op": "variable", "name": "x", "dtype": "float32",
                       "shape": [4611686018427387904, 0]}]})",
                  "g.json: node 0 'x': variable: shape [4611686018427387904, 0] has too many "
                  "elements"},
        Malformed{"UnsignedAttribute",
                  R"({"format": "lockstep-graph", "version": 1, "nodes": [
                      {"op": "variable", "name": "x"},
                      {"op": "softmax", "name": "s", "attrs": {"axis": 18446744073709551615},
                       "inputs": [[0, 0]]}]})",
                  "g.json: node 1 's': attribute 'axis' is 18446744073709551615, more than int64 "
                  "holds"}),
    [](const auto& info) { return info.param.what; });

TEST(Symbol, RefusesNamesAndTextsThatAreNotUtf8) {
  const std::string message = "symbol: a name has the byte 0xff at 1, which is not UTF-8";
  const Symbol x = Symbol::variable("größe \U0001f4d0");
  EXPECT_EQ(Symbol::from_json(x.to_json()).name(), x.name());
  expect_error<InvalidArgument>([] { Symbol::variable("x\xff"); }, message);
  expect_error<InvalidArgument>([] { Symbol::constant(Tensor::scalar(1), "x\xff"); }, message);
  expect_error<InvalidArgument>([&] { Symbol::apply("relu", {x}, {}, "x\xff"); }, message);
  Graph graph;
  graph.add_input(floats({1}), "x\xff");
  expect_error<InvalidArgument>([&] { Symbol::from_graph(graph); }, message);
  expect_error<InvalidArgument>(
      [&] {
        Symbol::apply("dense", {x, x}, {{"activation", "\xc0\x80"}});
      },
      "symbol: an attribute has the byte 0xc0 at 0, which is not UTF-8");
}

std::vector<std::string> input_names(const Graph& graph) {
  std::vector<std::string> names;
  for (ValueId input : graph.inputs()) names.push_back(graph.node(input).name);
  return names;
}

TEST(Symbol, KeepsAGraphsInputsAndTheirOrder) {
  const Graph graph = trace(
      [](const std::vector<Tensor>& in) { return std::vector<Tensor>{subtract(in[2], in[0])}; },
      {floats({1}), floats({2}), floats({3}), floats({1})}, {"a", "b", "c", "d"});
  const Symbol symbol = Symbol::from_graph(graph);
  const Symbol again = Symbol::from_json(symbol.to_json());
  EXPECT_EQ(again.to_json(), symbol.to_json());
  EXPECT_EQ(again.list_arguments(), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(input_names(again.to_graph()), (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(again.to_graph().input_infos(), graph.input_infos());
  const Symbol composed = again.compose({{"b", Symbol::variable("z")}, {"c", network()}});
  EXPECT_EQ(composed.list_arguments(), (std::vector<std::string>{"a", "d", "x", "w", "b"}));
  EXPECT_EQ(Symbol::group({again, again}).list_arguments(), again.list_arguments());
}

TEST(Symbol, NamesInputsThatHaveNone) {
  Graph graph;
  const ValueId first = graph.add_input(floats({1}), "");
  graph.add_input(floats({1}), "input0");
  graph.add_input(floats({1}), "");
  graph.add_output(first);
  const Symbol again = Symbol::from_json(Symbol::from_graph(graph).to_json());
  EXPECT_EQ(again.list_arguments(), (std::vector<std::string>{"input1", "input0", "input2"}));
}

TEST(Symbol, KeepsDevicesInAFile) {
  const Symbol x = Symbol::variable("x", TensorInfo{{2}, DType::float32, cpu(3)});
  const Symbol c = Symbol::constant(Tensor::full({2}, 1.5).to(cpu(3)));
  const Symbol again = Symbol::from_json(Symbol::apply("add", {x, c}).to_json());
  EXPECT_EQ(again.infer().outputs[0].device, cpu(3));
  const Tensor& constant = again.entries()[0].node->inputs[1].node->constant;
  EXPECT_EQ(constant.to_vector<float>(), (std::vector<float>{1.5f, 1.5f}));
}

TEST(Symbol, CountsInputsAsAnOpDoes) {
  expect_error<InvalidArgument>([] { Symbol::apply("concat", {}); },
                                "concat: takes at least 1 inputs, got 0");
  expect_error<InvalidArgument>([] { Symbol::apply("add", {Symbol::variable("x")}); },
                                "add: takes 2 inputs, got 1");
  expect_error<InvalidArgument>([] { Symbol::apply("dense", {Symbol::variable("x")}); },
                                "dense: takes 2 to 3 inputs, got 1");
}

TEST(Symbol, HasNoStatesWhenBound) {
  const CompileOptions options{.states = {0}, .carries = {{.input = 0, .output = 0}}};
  expect_error<InvalidArgument>([&] { network().bind(kShapes, {}, options); },
                                "symbol: a bound symbol has no states, got 1 states and 1 carries; "
                                "compile to_graph() for those");
}

TEST(Symbol, RefusesAFileThatIsNestedTooDeep) {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  expect_error<Corrupt>(
      [&] {
        Symbol::from_json(R"({"format": "lockstep-graph", "version": )" + deep + "}", "g.json");
      },
      "g.json: is nested more than 16 deep");
}

TEST(Symbol, RefusesShapesThatCannotBeCounted) {
  const std::int64_t half = std::int64_t{1} << 32;
  const Symbol product = Symbol::apply("add", {Symbol::variable("x"), Symbol::variable("y")});
  expect_error<InvalidArgument>(
      [&] {
        product.infer({{"x", floats({half, 1})}, {"y", floats({1, half})}});
      },
      "add: shape [4294967296, 4294967296] has too many elements");
  expect_error<InvalidArgument>(
      [&] {
        product.infer({{"x", floats({half, half})}, {"y", floats({1})}});
      },
      "graph: shape [4294967296, 4294967296] has too many elements");
}

TEST(Symbol, HoldsAChainOfAHundredThousandOps) {
  Symbol chain = Symbol::variable("x", floats({1}));
  for (int i = 0; i < 100000; ++i) chain = Symbol::apply("relu", {chain});
  EXPECT_EQ(chain.list_arguments(), std::vector<std::string>{"x"});
}

TEST(File, KeepsTheOldContentsWhenAWriteFails) {
  const std::string folder = ::testing::TempDir() + "file_test_" + std::to_string(::getpid());
  expect_error<NotFound>([&] { write_file(folder + "/none/a", "x"); },
                         folder + "/none/a: cannot create: no such file or folder");
  const std::string path = ::testing::TempDir() + "file_test.txt";
  write_file(path, "old");
  write_file(path, "new");
  EXPECT_EQ(read_file(path), "new");
  std::remove(path.c_str());
}

}  // namespace
}  // namespace lockstep
