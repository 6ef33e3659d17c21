// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/nn/loss.h"
#include "lockstep/optim/optimizers.h"
#include "lockstep/train/trainer.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/observe/folder.h"
#include "tests/tensor/test_device.h"
#include "tests/train/sparse_net.h"

// Embeddings whose gradients are of the rows that a step looks up.
namespace lockstep::train {
namespace {

using namespace lockstep::testing;
using Floats = std::vector<float>;

constexpr int kLookupSteps = 6;

std::string train_lookups(const nn::BlockPtr& net, const optim::OptimizerPtr& rule, int threads = 1,
                          kvstore::Mode* mode = nullptr) {
  StepEngine engine = lookup_engine(net, rule, threads, mode);
  for (int step = 0; step < kLookupSteps; ++step)
    EXPECT_TRUE(engine.run(step, 0.3, lookups(engine, step)).finite);
  return engine.params_sha256();
}

// Without momentum and decay a row without a gradient stays as it is in either; a sum has the
// same terms, but for zeros.
TEST(SparseGradients, GiveTheBitsOfDenseOnesByARuleThatKeepsNothing) {
  const auto rule = optim::sgd({});
  const std::string dense = train_lookups(two_towers({}), rule);
  const std::string padded = train_lookups(two_towers({.padding_index = kPadding}), rule);
  EXPECT_NE(dense, padded);
  for (int threads : {1, 2, 3}) {
    EXPECT_EQ(train_lookups(two_towers({.sparse_grad = true}), rule, threads), dense);
    EXPECT_EQ(
        train_lookups(two_towers({.padding_index = kPadding, .sparse_grad = true}), rule, threads),
        padded);
  }
}

TEST(SparseGradients, GiveTheSameBitsOnAnyNumberOfThreadsAndWorkers) {
  const optim::OptimizerPtr rules[] = {
      optim::adam({.weight_decay = 0.01}), optim::sgd({.momentum = 0.9, .clip_norm = 0.05}),
      optim::lamb({.weight_decay = 0.01}), optim::lars({.momentum = 0.9})};
  const nn::EmbeddingOptions sparse{.padding_index = kPadding, .sparse_grad = true};
  for (const optim::OptimizerPtr& rule : rules) {
    const std::string alone = train_lookups(two_towers(sparse), rule);
    EXPECT_NE(alone, train_lookups(two_towers({.padding_index = kPadding}), rule)) << rule->name();
    for (int threads : {2, 3}) EXPECT_EQ(train_lookups(two_towers(sparse), rule, threads), alone);
    for (int workers : {1, 2, 3, 5})
      as_ranks(workers, [&](comm::Communicator& communicator) {
        const auto mode = kvstore::allreduce_mode(communicator);
        EXPECT_EQ(train_lookups(two_towers(sparse), rule, 1 + workers % 2, mode.get()), alone)
            << rule->name() << " on " << workers;
      });
  }
}

TEST(SparseGradients, GiveTheHostsBitsOnADevice) {
  const auto device = TestDevice::make();
  const auto on = [&](const Device& where) {
    std::vector<TensorInfo> fields = data::infos_of(lookup_batch(0, 0));
    for (TensorInfo& info : fields) info.device = where;
    StepEngine engine(two_towers({.sparse_grad = true}), nn::SoftmaxCrossEntropyLoss(),
                      optim::adam({}), fields, {.shards = kLookupShards, .threads = 2, .seed = 3});
    for (int step = 0; step < kLookupSteps; ++step) engine.run(step, 0.3, lookups(engine, step));
    return engine.params_sha256();
  };
  EXPECT_EQ(on(device->device()), on({}));
}

// The table by hand: gradients by the tape, and the rule on one row after the other.
class LazyTable {
 public:
  LazyTable(nn::BlockPtr net, optim::OptimizerPtr rule)
      : net_(std::move(net)),
        rule_(std::move(rule)),
        weights_(net_->parameter("words.weight").data().to_vector<float>()),
        slots_(static_cast<std::size_t>(rule_->slots()), Floats(weights_.size())) {}

  void step(int step, double rate) {
    Floats sum(weights_.size());
    std::set<std::int64_t> touched;
    for (std::int64_t shard = 0; shard < kLookupShards; ++shard) {
      const data::Fields batch = lookup_batch(step, shard);
      add_gradient(batch, sum);
      for (const std::int64_t id : batch[0].to_vector<std::int64_t>())
        if (id != kPadding) touched.insert(id);
    }
    const optim::UpdateContext context{.step = step + 1,
                                       .learning_rate = rate,
                                       .weight_decay = rule_->options().weight_decay,
                                       .gradient_scale = 1.0 / kLookupShards};
    for (const std::int64_t id : touched) {
      const auto offset = static_cast<std::size_t>(id * kWidth);
      std::vector<float*> slots;
      for (Floats& slot : slots_) slots.push_back(slot.data() + offset);
      rule_->update(context, {{weights_.data() + offset, kWidth}, {&sum[offset], kWidth}, slots});
    }
    net_->parameter("words.weight").set_data(Tensor::from(weights_, {kRows, kWidth}));
  }
  const Floats& weights() const { return weights_; }
  const Floats& slot(std::size_t number) const { return slots_[number]; }

 private:
  void add_gradient(const data::Fields& batch, Floats& sum) {
    {
      const autograd::RecordScope record;
      autograd::backward(mean(softmax_cross_entropy((*net_)(batch[0]), batch[1])));
    }
    const Floats gradient = net_->parameter("words.weight").grad().to_vector<float>();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  }

  nn::BlockPtr net_;
  optim::OptimizerPtr rule_;
  Floats weights_;
  std::vector<Floats> slots_;
};

void expect_near_floats(const Floats& a, const Floats& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5) << what << ", " << i;
}

// Only the table learns, so that there is nothing but tables.
nn::BlockPtr frozen_head(bool sparse = true) {
  const nn::BlockPtr net = two_towers({.padding_index = kPadding, .sparse_grad = sparse});
  net->freeze("^head");
  return net;
}

TEST(SparseGradients, UpdateTheRowsOfAStepAndWhatTheRuleKeepsForThem) {
  const optim::OptimizerPtr rules[] = {optim::adam({.weight_decay = 0.01}),
                                       optim::sgd({.momentum = 0.9, .weight_decay = 0.01}),
                                       optim::adagrad({}), optim::rmsprop({.centered = true})};
  for (const optim::OptimizerPtr& rule : rules) {
    LazyTable by_hand(frozen_head(), rule);
    StepEngine engine = lookup_engine(frozen_head(), rule, 2);
    for (int step = 0; step < 12; ++step) {
      by_hand.step(step, 0.02);
      engine.run(step, 0.02, lookups(engine, step));
    }
    const std::string name(rule->name());
    expect_near_floats(engine.snapshot().parameters[0].second.to_vector<float>(), by_hand.weights(),
                       name);
    const auto slots = engine.slots();
    ASSERT_EQ(slots.size(), static_cast<std::size_t>(rule->slots())) << name;
    for (std::size_t k = 0; k < slots.size(); ++k) {
      EXPECT_EQ(slots[k].first, fmt::format("slot{}/words.weight", k));
      expect_near_floats(slots[k].second.to_vector<float>(), by_hand.slot(k), name);
    }
  }
}

// Rows are gathered whole, and added in the canonical order, however other gradients travel.
TEST(SparseGradients, TravelAsTheyAreWhateverBecomesOfOthers) {
  const auto rule = optim::adam({});
  const std::string alone = train_lookups(frozen_head(), rule);
  const kvstore::AllReduceOptions options[] = {
      {},
      {.algorithm = comm::Algorithm::ring},
      {.compression = kvstore::parse_compression("2bit:0.5")}};
  for (const kvstore::AllReduceOptions& travelling : options)
    as_ranks({"a", "b", "b"}, [&](comm::Communicator& communicator) {
      const auto mode = kvstore::allreduce_mode(communicator, travelling);
      EXPECT_EQ(train_lookups(frozen_head(), rule, 1, mode.get()), alone);
    });
}

Floats row(const Floats& table, std::int64_t id) {
  return {table.begin() + id * kWidth, table.begin() + (id + 1) * kWidth};
}

TEST(SparseGradients, LeaveTheRowOfPaddingWhateverItIs) {
  const nn::BlockPtr net = frozen_head();
  Tensor table = net->parameter("words.weight").data().copy();
  for (std::int64_t i = 0; i < kWidth; ++i) table.data<float>()[kPadding * kWidth + i] = 0.25F;
  net->parameter("words.weight").set_data(table);
  StepEngine engine = lookup_engine(net, optim::sgd({.momentum = 0.9, .weight_decay = 0.5}), 1);
  const Floats before = table.to_vector<float>();
  for (int step = 0; step < 3; ++step) engine.run(step, 0.1, lookups(engine, step));
  const Floats after = engine.snapshot().parameters[0].second.to_vector<float>();
  EXPECT_EQ(row(after, kPadding), row(before, kPadding));
  EXPECT_NE(row(after, kPadding + 1), row(before, kPadding + 1));
}

TEST(SparseGradients, OfABatchOfPaddingAloneChangeNothing) {
  StepEngine engine = lookup_engine(frozen_head(), optim::adam({.weight_decay = 0.1}));
  engine.run(0, 0.1, lookups(engine, 0));
  const std::string before = engine.params_sha256();
  const Floats slot = engine.slots()[0].second.to_vector<float>();
  std::vector<data::Fields> padding = lookups(engine, 0);
  for (data::Fields& batch : padding)
    batch[0] = Tensor::full({kBatchOfShard, 4}, kPadding, DType::int64);
  EXPECT_TRUE(engine.run(1, 0.1, padding).finite);
  EXPECT_EQ(engine.params_sha256(), before);
  EXPECT_EQ(engine.slots()[0].second.to_vector<float>(), slot);
}

// Its table is there, but the loss does not depend on it.
class UnusedTable final : public nn::Block {
 public:
  UnusedTable()
      : words_(add_child("words", nn::embedding(kRows, kWidth, {.sparse_grad = true}))),
        head_(add_child("head", nn::dense(kLabels, {.inputs = 4}))) {}
  Tensor forward(const Tensor& ids) override {
    const Tensor x = lockstep::cast(ids, DType::float32) + stop_gradient(sum((*words_)(ids)));
    return (*head_)(x);
  }

 private:
  nn::BlockPtr words_, head_;
};

TEST(SparseGradients, OfATableThatTheLossDoesNotDependOnAreNone) {
  const auto net = std::make_shared<UnusedTable>();
  net->initialize(nn::init::uniform(0.1), 3);
  const Floats before = net->parameter("words.weight").data().to_vector<float>();
  StepEngine engine = lookup_engine(net, optim::adam({.weight_decay = 0.1}));
  EXPECT_TRUE(engine.run(0, 0.01, lookups(engine, 0)).finite);
  engine.store(*net);
  EXPECT_EQ(net->parameter("words.weight").data().to_vector<float>(), before);
}

TEST(SparseGradients, OfAFrozenTableAreNone) {
  const auto frozen = [](bool sparse) {
    const nn::BlockPtr net = two_towers({.sparse_grad = sparse});
    net->freeze("^words");
    return net;
  };
  const auto rule = optim::adam({});
  EXPECT_EQ(train_lookups(frozen(true), rule), train_lookups(frozen(false), rule));
  StepEngine engine = lookup_engine(frozen(true), rule);
  EXPECT_EQ(engine.slots().size(), 4);  // of the head's weight and bias
}

TEST(SparseGradients, FollowBatchesOfOtherShapes) {
  const auto run = [](bool sparse, int threads) {
    StepEngine engine = lookup_engine(two_towers({.sparse_grad = sparse}), optim::sgd({}), threads);
    for (int step = 0; step < kLookupSteps; ++step)
      engine.run(step, 0.3, lookups(engine, step, 2 + 2 * (step % 3)));
    return engine.params_sha256();
  };
  EXPECT_EQ(run(true, 1), run(false, 1));
  EXPECT_EQ(run(true, 2), run(false, 1));
}

// A net may look a table up as often as its batch tells.
class ByColumn final : public nn::Block {
 public:
  explicit ByColumn(bool sparse)
      : words_(add_child("words", nn::embedding(kRows, kLabels, {.sparse_grad = sparse}))) {}
  Tensor forward(const Tensor& ids) override {
    Tensor y = (*words_)(reshape(slice_axis(ids, 1, 0, 1), {-1}));
    for (std::int64_t i = 1; i < ids.shape(1); ++i)
      y = y * 0.5 +
          (*words_)(reshape(lockstep::cast(slice_axis(ids, 1, i, i + 1), DType::int32), {-1}));
    return y;
  }

 private:
  nn::BlockPtr words_;
};

TEST(SparseGradients, AddWhatSeveralLookupsOfATableGive) {
  const auto run = [](bool sparse) {
    const auto net = std::make_shared<ByColumn>(sparse);
    net->initialize(nn::init::uniform(0.1), 3);
    StepEngine engine = lookup_engine(net, optim::sgd({}), 2);
    for (int step = 0; step < kLookupSteps; ++step)
      engine.run(step, 0.3, lookups(engine, step, 2 + step % 4));
    return engine.params_sha256();
  };
  EXPECT_EQ(run(true), run(false));
}

// Ids that are no data, and are looked up anew when their table has changed; two tables that have
// the same ones.
class Positions final : public nn::Block {
 public:
  explicit Positions(bool sparse)
      : words_(add_child("words", nn::embedding(kRows, kLabels, {.sparse_grad = sparse}))),
        others_(add_child("others", nn::embedding(kRows, kLabels, {.sparse_grad = sparse}))),
        places_(add_child("places", nn::embedding(9, kLabels, {.sparse_grad = sparse}))) {}
  Tensor forward(const Tensor& ids) override {
    const Tensor places = arange(0.0, static_cast<double>(ids.shape(1)), 1.0, DType::int64);
    return mean((*words_)(ids) * (*others_)(ids) + (*places_)(places), {1});
  }

 private:
  nn::BlockPtr words_, others_, places_;
};

TEST(SparseGradients, OfSeveralTablesAreEachsOwn) {
  const auto run = [](bool sparse, int threads) {
    const auto net = std::make_shared<Positions>(sparse);
    net->initialize(nn::init::uniform(0.5), 3);
    return train_lookups(net, optim::sgd({}), threads);
  };
  for (int threads : {1, 2}) EXPECT_EQ(run(true, threads), run(false, 1));
}

TEST(SparseGradients, OfAStepThatIsNotFiniteChangeNothing) {
  const auto rule = optim::adam({});
  StepEngine engine = lookup_engine(two_towers({.sparse_grad = true}), rule, 2);
  engine.run(0, 0.1, lookups(engine, 0));
  const Snapshot good = engine.snapshot();
  const std::string before = engine.params_sha256();
  const nn::BlockPtr bad = two_towers({.sparse_grad = true});
  engine.store(*bad);
  Tensor table = bad->parameter("words.weight").data().copy();
  table.data<float>()[6 * kWidth] = std::numeric_limits<float>::infinity();  // step 1 looks it up
  bad->parameter("words.weight").set_data(table);
  engine.load(*bad);
  const std::string spoilt = engine.params_sha256();
  EXPECT_FALSE(engine.run(1, 0.1, lookups(engine, 1)).finite);
  EXPECT_EQ(engine.params_sha256(), spoilt);
  const nn::BlockPtr well = two_towers({.sparse_grad = true});
  for (const auto& [name, tensor] : good.parameters) well->parameter(name).set_data(tensor);
  engine.load(*well);
  EXPECT_EQ(engine.params_sha256(), before);
  EXPECT_TRUE(engine.run(1, 0.1, lookups(engine, 1)).finite);
  StepEngine undisturbed = lookup_engine(two_towers({.sparse_grad = true}), rule);
  for (int step = 0; step < 2; ++step) undisturbed.run(step, 0.1, lookups(undisturbed, step));
  EXPECT_EQ(engine.params_sha256(), undisturbed.params_sha256());
}

TEST(SparseGradients, GoOnFromASnapshotWithTheSameBits) {
  const auto rule = optim::adam({});
  const nn::BlockPtr net = two_towers({.sparse_grad = true});
  StepEngine first = lookup_engine(net, rule);
  for (int step = 0; step < 3; ++step) first.run(step, 0.1, lookups(first, step));
  const Snapshot middle = first.snapshot();
  for (int step = 3; step < 6; ++step) first.run(step, 0.1, lookups(first, step));
  for (const auto& [name, tensor] : middle.parameters) net->parameter(name).set_data(tensor);
  StepEngine second = lookup_engine(net, rule, 3);
  second.set_slots(middle.slots);
  for (int step = 3; step < 6; ++step) second.run(step, 0.1, lookups(second, step));
  EXPECT_EQ(second.params_sha256(), first.params_sha256());
  auto other = middle.slots;
  other.back().second = Tensor::zeros({kRows, kWidth + 1});
  EXPECT_EQ(message_of<Corrupt>([&] { second.set_slots(other); }),
            "train: slot1/words.weight is float32[40, 6], the parameter is [40, 5]");
}

// A table that a dense layer shares is a weight like any other.
class Tied final : public nn::Block {
 public:
  Tied() : words_(add_child("words", nn::embedding(kRows, kWidth, {.sparse_grad = true}))) {}
  Tensor forward(const Tensor& ids) override {
    return dense(mean((*words_)(ids), {1}), words_->parameter("weight").data());
  }

 private:
  nn::BlockPtr words_;
};

TEST(SparseGradients, AreRefusedForATableThatIsUsedOtherwise) {
  const auto net = std::make_shared<Tied>();
  net->initialize(nn::init::uniform(0.1), 3);
  EXPECT_EQ(message_of([&] { lookup_engine(net, optim::sgd({})); }),
            "train: parameter words.weight of block words has sparse gradients, and dense uses it: "
            "expected embedding() alone to read it, or sparse_grad = false");
}

TEST(SparseGradients, AreThoseOfATable) {
  class Row final : public nn::Block {
   public:
    Row() : weight_(add_parameter("weight", {kLabels}, {.sparse_grad = true})) {}
    Tensor forward(const Tensor& ids) override {
      return weight_.data() * mean(lockstep::cast(ids, DType::float32), {1}, true);
    }

   private:
    nn::Parameter weight_;
  };
  const auto net = std::make_shared<Row>();
  net->initialize(nn::init::uniform(0.1), 3);
  EXPECT_EQ(message_of([&] { lookup_engine(net, optim::sgd({})); }),
            "train: parameter weight has sparse gradients and shape [3], expected a table [rows, "
            "width]");
  EXPECT_EQ(nn::embedding(3, 2, {.sparse_grad = true})->description(),
            "Embedding(3, 2, sparse gradients)");
}

data::DatasetPtr lookup_samples(std::int64_t count = 72) {
  const RandomScope draws(random_key(4, 0, 0));
  return std::make_shared<data::ArrayDataset>(
      data::Fields{randint(0, kRows, {count, 4}), randint(0, kLabels, {count})});
}

Trainer lookup_trainer(bool sparse, kvstore::Mode* mode = nullptr) {
  return {two_towers({.sparse_grad = sparse}),
          nn::SoftmaxCrossEntropyLoss(),
          optim::adam({.learning_rate = 0.02}),
          {.global_batch = 12, .shards = 6, .seed = 1, .mode = mode}};
}

TEST(SparseGradients, OfARunThatIsResumedAreThoseOfOneThatWasNot) {
  const std::string whole = lookup_trainer(true).fit(lookup_samples(), {.epochs = 3}).params_sha256;
  EXPECT_NE(whole, lookup_trainer(false).fit(lookup_samples(), {.epochs = 3}).params_sha256);
  const TemporaryFolder folder;
  FitOptions options{.epochs = 1};
  options.checkpoints = folder.path();
  lookup_trainer(true).fit(lookup_samples(), options);
  options.resume = true;
  options.epochs = 3;
  EXPECT_EQ(message_of([&] { lookup_trainer(false).fit(lookup_samples(), options); }),
            std::string(folder.path()) +
                ": is of a run with another configuration: sparse_gradients was \"words.weight\", "
                "now nothing");
  const FitResult resumed = lookup_trainer(true).fit(lookup_samples(), options);
  EXPECT_EQ(resumed.resumed_from, 6);
  EXPECT_EQ(resumed.params_sha256, whole);
}

TEST(SparseGradients, OfAnIdThatIsOutOfRangeNameTheSample) {
  const data::Fields fields = {Tensor::zeros({72, 4}, DType::int64),
                               Tensor::zeros({72}, DType::int64)};
  fields[0].data<std::int64_t>()[50 * 4 + 1] = kRows;
  EXPECT_EQ(message_of([&] {
              lookup_trainer(true).fit(std::make_shared<data::ArrayDataset>(fields),
                                       {.epochs = 1, .sampler = data::sequential_sampler(72)});
            }),
            "train: sample 50 of the data set: embedding: index 40 at position 1 is out of range "
            "for axis of size 40");
}

TEST(SparseGradients, NeedAModeThatTakesRows) {
  class NoRows final : public kvstore::Synchronizer {
   public:
    explicit NoRows(kvstore::FlatState& state) : state_(state) {}
    kvstore::FlatState& state() override { return state_; }
    bool takes_pieces() const override { return true; }
    void begin(std::int64_t, double) override {}
    void give(std::size_t, std::span<const Node>) override {}
    kvstore::Vote commit(const kvstore::Vote& own, std::span<float>, ThreadTeam&) override {
      return own;
    }

   private:
    kvstore::FlatState& state_;
  };
  class NoRowsMode final : public kvstore::Mode {
   public:
    kvstore::Group& group() override { return *group_; }
    std::unique_ptr<kvstore::Synchronizer> synchronize(kvstore::FlatState& state,
                                                       std::int64_t) override {
      return std::make_unique<NoRows>(state);
    }

   private:
    std::unique_ptr<kvstore::Group> group_ = kvstore::group_of_one();
  } mode;
  StepEngine engine = lookup_engine(two_towers({.sparse_grad = true}), optim::sgd({}), 1, &mode);
  EXPECT_EQ(message_of<Unsupported>([&] { engine.run(0, 0.1, lookups(engine, 0)); }),
            "kvstore: parameters with sparse gradients are trained by local and allreduce, not by "
            "this mode");
}

}  // namespace
}  // namespace lockstep::train
