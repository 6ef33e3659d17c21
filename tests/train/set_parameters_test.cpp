// SPDX-License-Identifier: Apache-2.0
// What a callback sets is what training goes on with, where each worker has a part of the
// parameters too; where it cannot be, the run says so.
#include <gtest/gtest.h>

#include "lockstep/comm/communicator.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/train/part_ways.h"
#include "tests/train/small_run.h"

namespace lockstep::train {
namespace {

using testing::message_of;
using testing::part_ways;
using testing::PartWay;

FitResult fit_way(const PartWay& way, kvstore::Mode* mode, const CallbackPtr& callback) {
  Trainer trainer(testing::small_net(), testing::cross_entropy(),
                  optim::sgd({.learning_rate = 0.05, .momentum = 0.9}),
                  {.global_batch = 24, .shards = 8, .seed = 3, .mesh = way.mesh, .mode = mode});
  FitOptions options = testing::small_fit(2);
  if (callback) options.callbacks = {callback};
  return trainer.fit(testing::small_images(100), options);
}

// The first layer's and the last one's: of different workers, where they have stages.
void halve_weights_of(nn::Block& net) {
  for (const char* layer : {"0", "4"}) {
    nn::Parameter weight = net.child(layer)->parameter("weight");
    weight.set_data(multiply(weight.data(), 0.5));
  }
}

void halve_weights(FitContext& context) { halve_weights_of(context.net()); }

class Halving final : public Callback {
 public:
  enum class When { begin, evaluation, end };
  explicit Halving(When when) : when_(when) {}
  void on_train_begin(FitContext& context) override { halve_at(When::begin, context); }
  void on_evaluation(FitContext& context, const Evaluation&) override {
    halve_at(When::evaluation, context);
  }
  void on_train_end(FitContext& context, const FitResult&) override {
    halve_at(When::end, context);
  }

 private:
  void halve_at(When when, FitContext& context) const {
    if (when == when_) halve_weights(context);
  }
  When when_;
};

TEST(SetParameters, AreWhatWorkersWithAPartGoOnWith) {
  for (const PartWay& way : part_ways()) {
    const std::string plain = fit_way(way, nullptr, nullptr).params_sha256;
    for (const auto when : {Halving::When::begin, Halving::When::evaluation, Halving::When::end}) {
      SCOPED_TRACE(fmt::format("{}, {}", way.name, static_cast<int>(when)));
      const FitResult alone = fit_way(way, nullptr, std::make_shared<Halving>(when));
      // What is set in the end is in the net and the result.
      EXPECT_NE(alone.params_sha256, plain);
      testing::as_ranks(way.workers, [&](comm::Communicator& communicator) {
        const auto mode = way.mode(communicator);
        const FitResult own = fit_way(way, mode.get(), std::make_shared<Halving>(when));
        EXPECT_EQ(own.params_sha256, alone.params_sha256);
        EXPECT_EQ(own.validation.loss, alone.validation.loss);
      });
    }
  }
}

// It has the net since the run began, and does not ask for it again.
CallbackPtr halving_what_is_held() {
  class Holding final : public Callback {
   public:
    void on_train_begin(FitContext& context) override { net_ = &context.net(); }
    void on_evaluation(FitContext&, const Evaluation&) override { halve_weights_of(*net_); }

   private:
    nn::Block* net_ = nullptr;
  };
  return std::make_shared<Holding>();
}

TEST(SetParameters, InANetThatACallbackHoldsCountToo) {
  for (const PartWay& way : part_ways()) {
    SCOPED_TRACE(way.name);
    const FitResult alone = fit_way(way, nullptr, halving_what_is_held());
    EXPECT_NE(alone.params_sha256, fit_way(way, nullptr, nullptr).params_sha256);
    testing::as_ranks(way.workers, [&](comm::Communicator& communicator) {
      const auto mode = way.mode(communicator);
      EXPECT_EQ(fit_way(way, mode.get(), halving_what_is_held()).params_sha256,
                alone.params_sha256);
    });
  }
}

// A run whose end was not evaluated is, when it goes on: with what is set when it begins.
TEST(SetParameters, AreEvaluatedBeforeTheFirstStepToo) {
  for (const PartWay& way : part_ways()) {
    SCOPED_TRACE(way.name);
    const auto evaluated = [&](kvstore::Mode* mode, const CallbackPtr& callback) {
      Trainer trainer(testing::small_net(), testing::cross_entropy(), optim::sgd({}),
                      {.global_batch = 24, .shards = 8, .seed = 3, .mesh = way.mesh, .mode = mode});
      FitOptions options = testing::small_fit(0);
      options.callbacks = {callback};
      return trainer.fit(testing::small_images(100), options).validation.loss;
    };
    const auto halving = [] { return std::make_shared<Halving>(Halving::When::begin); };
    const double alone = evaluated(nullptr, halving());
    EXPECT_NE(alone, evaluated(nullptr, std::make_shared<Halving>(Halving::When::end)));
    testing::as_ranks(way.workers, [&](comm::Communicator& communicator) {
      const auto mode = way.mode(communicator);
      EXPECT_EQ(evaluated(mode.get(), halving()), alone);
    });
  }
}

TEST(SetParameters, BetweenEvaluationsAreRefusedWhereTheNetIsOlder) {
  const CallbackPtr each_step =
      on_step([](FitContext& context, const StepEvent&) { halve_weights(context); });
  for (const PartWay& way : part_ways()) {
    SCOPED_TRACE(way.name);
    testing::as_ranks(way.workers, [&](comm::Communicator& communicator) {
      const auto mode = way.mode(communicator);
      EXPECT_EQ(message_of<InvalidArgument>([&] { fit_way(way, mode.get(), each_step); }),
                "train: 0.weight was set after step 1, but each worker has a part of the "
                "parameters alone, and they are together only when a run begins, is evaluated and "
                "ends: set it in on_train_begin, on_evaluation or on_train_end");
    });
  }
}

TEST(SetParameters, OnOneWorkerAloneAreRefused) {
  for (const PartWay& way : part_ways()) {
    SCOPED_TRACE(way.name);
    testing::as_ranks(way.workers, [&](comm::Communicator& communicator) {
      const auto mode = way.mode(communicator);
      const CallbackPtr first = on_evaluation([](FitContext& context, const Evaluation&) {
        if (context.is_first()) halve_weights(context);
      });
      EXPECT_EQ(message_of<InvalidArgument>([&] { fit_way(way, mode.get(), first); }),
                "train: a callback set 0.weight on worker 0, and nothing on worker 1, or to other "
                "values: where each worker has a part of the parameters, it sets the same on all");
    });
  }
}

}  // namespace
}  // namespace lockstep::train
