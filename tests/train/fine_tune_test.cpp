// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/kvstore/allreduce.h"
#include "tests/kvstore/as_ranks.h"
#include "tests/message.h"
#include "tests/observe/folder.h"
#include "tests/train/small_run.h"

// Parts of a net that learn at another rate, or not at all.
namespace lockstep::train {
namespace {

using testing::message_of;
using Floats = std::vector<float>;

nn::BlockPtr net_with_parts() {
  const nn::BlockPtr net = testing::small_net();
  net->set_multipliers("^0\\.", 0.1);
  net->set_multipliers("^4\\.", 3.0, 0.0);
  return net;
}

FitResult fit_parts(const nn::BlockPtr& net, int threads, kvstore::Mode* mode = nullptr,
                    FitOptions options = testing::small_fit(2)) {
  Trainer trainer(net, testing::cross_entropy(),
                  optim::sgd({.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 0.01}),
                  {.global_batch = 24, .shards = 8, .threads = threads, .seed = 3, .mode = mode});
  return trainer.fit(testing::small_images(100), options);
}

TEST(FineTune, RatesOfPartsGiveTheSameBitsOnAnyNumberOfThreadsAndWorkers) {
  const std::string alone = fit_parts(net_with_parts(), 1).params_sha256;
  EXPECT_NE(alone, fit_parts(testing::small_net(), 1).params_sha256);
  EXPECT_EQ(fit_parts(net_with_parts(), 2).params_sha256, alone);
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator);
    EXPECT_EQ(fit_parts(net_with_parts(), 1, mode.get()).params_sha256, alone);
  });
}

Floats change_of(const std::string& name, double multiplier) {
  const nn::BlockPtr net = testing::small_net();
  net->set_multipliers("^4\\.", multiplier);
  net->initialize(nn::init::fan_in(), 3);
  net->complete_shapes({{{1, 1, 8, 8}, DType::float32, {}}});
  Floats change = net->parameter(name).data().to_vector<float>();
  FitOptions options = testing::small_fit();
  options.epochs = 0;
  options.steps = 1;
  fit_parts(net, 1, nullptr, options);
  const Floats after = net->parameter(name).data().to_vector<float>();
  for (std::size_t i = 0; i < after.size(); ++i) change[i] = after[i] - change[i];
  return change;
}

TEST(FineTune, AStepIsAsLongAsTheMultiplierSays) {
  const Floats once = change_of("4.bias", 1.0), four_times = change_of("4.bias", 4.0);
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_NEAR(four_times[i], 4 * once[i], 1e-6F);
  EXPECT_EQ(change_of("4.bias", 0.0), Floats(once.size(), 0.0F));
  EXPECT_EQ(change_of("0.weight", 4.0), change_of("0.weight", 1.0));
}

TEST(FineTune, ARunIsResumedWithTheRatesAndFrozenPartsItHad) {
  const testing::TemporaryFolder folder;
  FitOptions options = testing::small_fit(1);
  options.checkpoints = folder.path();
  const nn::BlockPtr first = net_with_parts();
  first->freeze("^1\\.");
  fit_parts(first, 1, nullptr, options);
  options.resume = true;
  options.epochs = 2;
  const nn::BlockPtr same = net_with_parts();
  same->freeze("^1\\.");
  EXPECT_EQ(fit_parts(same, 1, nullptr, options).resumed_from, 4);
  EXPECT_EQ(message_of([&] { fit_parts(testing::small_net(), 1, nullptr, options); }),
            std::string(folder.path()) +
                ": is of a run with another configuration: frozen was \"1.gamma, 1.beta, "
                "1.running_mean, 1.running_var\", now \"none\"; multipliers was \"rate x 0.1, "
                "decay x 1: 0.weight, 0.bias; rate x 3, decay x 0: 4.weight, 4.bias\", now "
                "\"none\"");
}

TEST(FineTune, WorkersWithOtherRatesAreRefused) {
  testing::as_ranks(2, [&](comm::Communicator& communicator) {
    const auto mode = kvstore::allreduce_mode(communicator);
    const nn::BlockPtr net = testing::small_net();
    net->set_multipliers("^4\\.", communicator.rank() == 0 ? 1.0 : 2.0);
    EXPECT_EQ(message_of([&] { fit_parts(net, 1, mode.get()); }),
              "configuration: multipliers is \"none\" on worker 0, \"rate x 2, decay x 1: "
              "4.weight, 4.bias\" on worker 1");
  });
}

TEST(FineTune, ANewHeadLearnsOnAFrozenBody) {
  const nn::BlockPtr net = testing::small_net();
  fit_parts(net, 1);
  const Floats body = net->parameter("0.weight").data().to_vector<float>();
  net->replace_child("4", nn::dense(testing::kClasses));
  net->freeze("^[01]\\.");
  const FitResult result = fit_parts(net, 2, nullptr, testing::small_fit(4));
  EXPECT_EQ(net->parameter("0.weight").data().to_vector<float>(), body);
  EXPECT_GT(result.validation.accuracy, 0.5);
}

}  // namespace
}  // namespace lockstep::train
