// SPDX-License-Identifier: Apache-2.0
// Split layers, computed as slices: the same numbers as unsplit, up to rounding; the same bits
// whoever computes which slices.
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/cluster/membership/workers_of.h"
#include "lockstep/graph/passes/passes.h"
#include "lockstep/graph/slice_types.h"
#include "lockstep/kvstore/allreduce.h"
#include "lockstep/kvstore/mesh_mode.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/loss.h"
#include "lockstep/ops/ops.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/step_engine.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/train/sliced_nets.h"

namespace lockstep::train {
namespace {

using testing::images_task;
using testing::message_of;
using testing::SliceTask;
using testing::small_cnn;
using testing::words_task;

constexpr std::int64_t kSliceShards = 3, kSliceSteps = 3;

struct SliceWay {
  std::int64_t slices = 1;
  std::vector<Split> splits = {};
  int threads = 1;
  kvstore::Mode* mode = nullptr;
  std::function<optim::OptimizerPtr()> rule = [] { return optim::adam({.learning_rate = 0.01}); };
  DType compute = DType::float32;
  std::vector<std::string> cuts = {};
};

struct SliceOutcome {
  std::string sha256;
  std::vector<double> losses, accuracies;
  Snapshot snapshot;
};

SliceOutcome train_slices(const SliceTask& task, const SliceWay& way) {
  const nn::BlockPtr net = task.net();
  net->initialize(nn::init::fan_in(), 3);
  StepEngine engine(net, nn::SoftmaxCrossEntropyLoss(), way.rule(), task.fields,
                    {.shards = kSliceShards,
                     .threads = way.threads,
                     .seed = 7,
                     .compile = {.compute = way.compute},
                     .mode = way.mode,
                     .cuts = way.cuts,
                     .slices = way.slices,
                     .splits = way.splits});
  SliceOutcome outcome;
  for (std::int64_t step = 0; step < kSliceSteps; ++step) {
    std::vector<data::Fields> batches;
    for (std::int64_t s = engine.range().lo; s < engine.range().hi; ++s)
      batches.push_back(task.batch(step, s));
    const StepResult result = engine.run(step, 0.01, batches);
    EXPECT_TRUE(result.finite);
    outcome.losses.push_back(result.loss);
    outcome.accuracies.push_back(result.accuracy);
  }
  outcome.sha256 = engine.params_sha256();
  outcome.snapshot = engine.snapshot();
  return outcome;
}

double distance(const std::vector<std::pair<std::string, Tensor>>& a,
                const std::vector<std::pair<std::string, Tensor>>& b) {
  EXPECT_EQ(a.size(), b.size());
  double apart = 0.0, size = 0.0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_EQ(a[i].second.shape().str(), b[i].second.shape().str());
    const auto x = a[i].second.to_vector<double>(), y = b[i].second.to_vector<double>();
    for (std::size_t e = 0; e < x.size(); ++e) {
      apart += (x[e] - y[e]) * (x[e] - y[e]);
      size += y[e] * y[e];
    }
  }
  return std::sqrt(apart / size);
}

// SGD: a rule that keeps small differences small.
void expect_what_the_whole_does(const SliceTask& task, std::int64_t slices,
                                const std::vector<Split>& splits = {}) {
  const auto sgd = [] { return optim::sgd({.learning_rate = 0.01, .momentum = 0.9}); };
  const SliceOutcome whole = train_slices(task, {.rule = sgd});
  const SliceOutcome split = train_slices(task, {.slices = slices, .splits = splits, .rule = sgd});
  for (std::size_t step = 0; step < whole.losses.size(); ++step) {
    EXPECT_NEAR(split.losses[step], whole.losses[step], 1e-4 * std::abs(whole.losses[step]));
    EXPECT_NEAR(split.accuracies[step], whole.accuracies[step], 1e-6);
  }
  EXPECT_LT(distance(split.snapshot.parameters, whole.snapshot.parameters), 1e-4);
  EXPECT_LT(distance(split.snapshot.slots, whole.snapshot.slots), 1e-3);
}

TEST(Slices, ComputeWhatTheWholeDoes) {
  for (const std::int64_t slices : {2, 3, 4})
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(::testing::Message() << slices << " slices" << (tied ? ", tied" : ""));
      expect_what_the_whole_does(words_task(tied), slices);
    }
}

TEST(Slices, DrawWhatTheWholeDraws) { expect_what_the_whole_does(words_task(false, 0.25), 2); }

TEST(Slices, OfConvolutionsAndBatchNormsComputeWhatTheWholeDoes) {
  for (const std::int64_t slices : {2, 3})
    expect_what_the_whole_does(images_task(small_cnn), slices);
}

TEST(Slices, OfLayersThatAreSplitOtherwiseComputeWhatTheWholeDoes) {
  expect_what_the_whole_does(words_task(false), 2,
                             {{"block.mlp.fc1", SplitWay::rows},
                              {"block.mlp.fc2", SplitWay::columns},
                              {"token", SplitWay::rows},
                              {"head", SplitWay::none}});
}

struct SlicePlacement {
  int replicas, workers, threads;
};

// One hash for every placement of the slices.
void expect_one_hash(const SliceTask& task, SliceWay way,
                     const std::vector<SlicePlacement>& placements) {
  const SliceOutcome one = train_slices(task, way);
  for (const auto& [replicas, workers, threads] : placements) {
    SCOPED_TRACE(::testing::Message()
                 << replicas << " x " << workers << " workers, " << threads << " threads");
    way.threads = threads;
    testing::as_ranks(replicas * workers, [&](comm::Communicator& communicator) {
      const auto mode =
          kvstore::mesh_mode(communicator, cluster::workers_of(communicator), {.tensor = workers});
      SliceWay own = way;
      own.mode = mode.get();
      const SliceOutcome placed = train_slices(task, own);
      EXPECT_EQ(placed.sha256, one.sha256);
      EXPECT_EQ(placed.losses, one.losses);
      EXPECT_EQ(distance(placed.snapshot.slots, one.snapshot.slots), 0.0);
    });
  }
}

TEST(Slices, HaveTheSameBitsWhoeverComputesThem) {
  for (const bool tied : {false, true})
    expect_one_hash(words_task(tied), {.slices = 2}, {{1, 2, 1}, {2, 2, 1}, {1, 2, 2}});
  expect_one_hash(words_task(false), {.slices = 4}, {{1, 2, 1}, {1, 4, 1}, {1, 3, 1}});
  expect_one_hash(words_task(true), {.slices = 3}, {{1, 2, 1}, {1, 3, 1}, {2, 2, 1}});
}

TEST(Slices, HaveTheSameBitsWithDropoutAndInHalfPrecision) {
  expect_one_hash(words_task(false, 0.25), {.slices = 2}, {{1, 2, 1}});
  expect_one_hash(words_task(false), {.slices = 2, .compute = DType::bfloat16}, {{1, 2, 1}});
}

TEST(Slices, OfConvolutionsHaveTheSameBitsWhoeverComputesThem) {
  expect_one_hash(images_task(small_cnn), {.slices = 3}, {{1, 2, 1}, {1, 3, 1}, {3, 2, 1}});
}

// What it adds up depends on a split weight and on no sample. The layer comes first: a weight is
// split by the first op that reads it.
class Penalised final : public nn::Block {
 public:
  Tensor forward(const Tensor& images) override {
    const Tensor scores = (*down_)((*up_)(images));
    return add(scores, multiply(sum(square(up_->parameter("weight").data())), 0.01));
  }

 private:
  std::shared_ptr<nn::Dense> up_ = add_child("up", nn::dense(12, {.inputs = 192}));
  std::shared_ptr<nn::Dense> down_ = add_child("down", nn::dense(5, {.inputs = 12}));
};

TEST(Slices, MeetInEveryRunThoughTheyDependOnWeightsAlone) {
  expect_one_hash(images_task([] { return std::make_shared<Penalised>(); }), {.slices = 2},
                  {{1, 2, 1}});
}

// Half of what its hidden layer gives is dropped, and all of it is infinite before.
class Infinite final : public nn::Block {
 public:
  Tensor forward(const Tensor& images) override {
    const Tensor hidden = (*up_)(images);
    const Tensor infinite =
        add(multiply(stop_gradient(hidden), 0.0), std::numeric_limits<double>::infinity());
    return (*down_)(multiply(hidden, minimum((*drop_)(infinite), 1.0)));
  }

 private:
  std::shared_ptr<nn::Dense> up_ = add_child("up", nn::dense(12, {.inputs = 192}));
  std::shared_ptr<nn::Dropout> drop_ = add_child("drop", nn::dropout(0.5));
  std::shared_ptr<nn::Dense> down_ = add_child("down", nn::dense(5, {.inputs = 12}));
};

TEST(Slices, DropInfinitiesAsTheWholeDoes) {
  expect_what_the_whole_does(images_task([] { return std::make_shared<Infinite>(); }), 2);
}

// Each meets the others thread by thread.
TEST(Slices, OfWorkersWithMoreThreadsAndFewerAreComputedByTheFewest) {
  const SliceTask task = words_task(false);
  const SliceOutcome one = train_slices(task, {.slices = 2});
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::mesh_mode(communicator, cluster::workers_of(communicator),
                                         {.tensor = 2}, {.timeout = std::chrono::seconds(20)});
    const SliceWay own{.slices = 2, .threads = 1 + 2 * communicator.rank(), .mode = mode.get()};
    EXPECT_EQ(message_of<Error>([&] { EXPECT_EQ(train_slices(task, own).sha256, one.sha256); }),
              "nothing was thrown");
  });
}

TEST(Slices, HaveTheSameBitsWithRulesThatMeasure) {
  const std::vector<std::function<optim::OptimizerPtr()>> rules{
      [] { return optim::sgd({.learning_rate = 0.1, .momentum = 0.9, .clip_norm = 0.5}); },
      [] { return optim::lamb({.learning_rate = 0.01, .weight_decay = 0.1, .clip_norm = 0.5}); },
      [] { return optim::lars({.learning_rate = 0.1, .weight_decay = 0.01}); }};
  for (const auto& rule : rules)
    expect_one_hash(words_task(false), {.slices = 4, .rule = rule}, {{1, 2, 1}, {2, 2, 1}});
}

// A rule's norms are those of the whole parameter, not of each slice.
TEST(Slices, AreMeasuredAsOne) {
  const auto lamb = [] { return optim::lamb({.learning_rate = 0.01, .weight_decay = 0.1}); };
  const SliceOutcome whole = train_slices(words_task(false), {.rule = lamb});
  const SliceOutcome split = train_slices(words_task(false), {.slices = 4, .rule = lamb});
  EXPECT_LT(distance(split.snapshot.parameters, whole.snapshot.parameters), 2e-3);
}

TEST(Slices, AndSegmentsAreOneWorkersToo) {
  const SliceTask task = words_task(true);
  const SliceOutcome whole = train_slices(task, {.slices = 2});
  const SliceOutcome cut = train_slices(task, {.slices = 2, .cuts = {"ln"}});
  for (std::size_t step = 0; step < whole.losses.size(); ++step)
    EXPECT_NEAR(cut.losses[step], whole.losses[step], 1e-4 * std::abs(whole.losses[step]));
}

StepGraph traced(std::int64_t slices) {
  const SliceTask task = words_task(true, 0.1);
  const nn::BlockPtr net = task.net();
  net->initialize(nn::init::fan_in(), 3);
  const LossFunction loss = nn::SoftmaxCrossEntropyLoss();
  return trace_step(*net, loss, task.fields, {}, {},
                    plan_slices(*net, loss, task.fields, {}, slices));
}

// The graph without one transfer: what it made is what it read.
Graph without(const Graph& graph, std::int32_t transfer) {
  Graph result;
  std::map<std::pair<std::int32_t, std::int32_t>, ValueId> copies;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (node.is_input()) {
      copies[{id, 0}] = result.add_input(node.outputs[0], node.name, node.slice);
      continue;
    }
    if (node.is_constant()) {
      copies[{id, 0}] = result.add_constant(node.constant);
      continue;
    }
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(copies.at({input.node, input.output}));
    ValueId made{-1, 0};
    if (id != transfer) made = result.add_node(*node.op, inputs, node.attrs);
    for (std::int32_t k = 0; k < static_cast<std::int32_t>(node.outputs.size()); ++k)
      copies[{id, k}] = id == transfer ? inputs[0] : ValueId{made.node, k};
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const ValueId output = graph.outputs()[i];
    result.add_output(copies.at({output.node, output.output}), graph.output_names()[i],
                      graph.output_slices()[i]);
  }
  return result;
}

TEST(Slices, NoTransferCanBeLeftOut) {
  const StepGraph step = traced(2);
  ASSERT_FALSE(find_slice_fault(step.graph));
  const SliceTypes types = infer_slices(step.graph);
  int tried = 0;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(step.graph.nodes().size()); ++id) {
    const Node& node = step.graph.node(id);
    if (node.op == nullptr || !is_slice_transfer(*node.op)) continue;
    const ValueId read = node.inputs[0];
    if (types[static_cast<std::size_t>(read.node)][static_cast<std::size_t>(read.output)] ==
        kNoSlice)
      continue;  // a constant is anybody's
    // Splitting and gathering change shapes, which ops that follow refuse before any type is known.
    if (node.op != &slice_sum_op() && node.op != &slice_spread_op()) continue;
    const Graph broken = without(step.graph, id);
    SCOPED_TRACE(std::string(node.op->name) + " %" + std::to_string(id));
    EXPECT_NE(message_of<InternalError>([&] { passes::verify(broken, "a test"); }),
              "nothing was thrown");
    ++tried;
  }
  EXPECT_GT(tried, 8);
}

TEST(Slices, AreRefusedInOneLineWhereTheyCannotBe) {
  const auto refused = [](const SliceTask& task, const SliceWay& way) {
    return message_of<InvalidArgument>([&] { train_slices(task, way); });
  };
  const SliceTask words = words_task(false);
  EXPECT_EQ(refused(words, {.slices = 5}),
            "block.attn.qkv (Dense(48)): slices: block.attn.qkv.weight has 4 heads, which cannot "
            "be 5 slices; leave its layer "
            "whole (none) or ask for fewer slices");
  EXPECT_EQ(
      refused(words, {.slices = 2, .splits = {{"blocks.*", SplitWay::rows}}}),
      "slices: 'blocks.*' names no layer of the net that has parameters: expected one such as "
      "token");
  EXPECT_EQ(refused(words, {.slices = 2, .splits = {{"ln", SplitWay::columns}}}),
            "slices: ln cannot be split: it is no dense layer, convolution or table that a step "
            "reads");
  EXPECT_EQ(refused(words, {.slices = 0}), "slices: 0 of them, expected 1 or more");
  testing::as_ranks(3, [&](comm::Communicator& communicator) {
    EXPECT_NE(message_of<InvalidArgument>([&] {
                kvstore::mesh_mode(communicator, cluster::workers_of(communicator), {.tensor = 2});
              }),
              "nothing was thrown");
  });
}

}  // namespace
}  // namespace lockstep::train
