// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/io/archive.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"
#include "tests/train/small_run.h"

// What a callback changes in the net while a fit runs.
namespace lockstep::train {
namespace {

using testing::message_of;

struct Course {
  std::vector<double> losses;  // step by step
  std::string params_sha256;
};

// Two epochs of 4 steps; `change` is called after each step with the number of steps done.
Course fit_changing(const std::function<void(nn::Block&, std::int64_t)>& change, int threads = 1) {
  Course run;
  FitOptions options = testing::small_fit(2);
  options.callbacks.push_back(on_step([&](FitContext& context, const StepEvent& event) {
    run.losses.push_back(event.loss);
    change(context.net(), event.step);
  }));
  Trainer trainer = testing::small_trainer(testing::small_net(), threads);
  run.params_sha256 = trainer.fit(testing::small_images(100), options).params_sha256;
  return run;
}

// All classes are equally likely to it.
nn::ForwardHook forget_everything() {
  return [](nn::Block&, const Tensors&, const Tensors& outputs) -> Tensors {
    return {outputs[0] * 0.0};
  };
}

TEST(RunningChange, AHookIsSeenByTheNextStepAndSoIsItsEnd) {
  const double knows_nothing = std::log(static_cast<double>(testing::kClasses));
  Course first;
  for (const int threads : {1, 2}) {
    nn::HookHandle handle;
    const Course run = fit_changing(
        [&](nn::Block& net, std::int64_t step) {
          if (step == 2) handle = net.child("4")->register_forward_hook(forget_everything());
          if (step == 5) handle.remove();
        },
        threads);
    for (std::size_t i = 0; i < run.losses.size(); ++i)
      EXPECT_EQ(std::abs(run.losses[i] - knows_nothing) < 1e-6, i >= 2 && i < 5) << "step " << i;
    if (threads == 1) first = run;
    EXPECT_EQ(run.losses, first.losses);
    EXPECT_EQ(run.params_sha256, first.params_sha256);
  }
}

TEST(RunningChange, AModeIsSeenByTheNextStep) {
  const Course whole = fit_changing([](nn::Block&, std::int64_t) {});
  const Course changed = fit_changing([](nn::Block& net, std::int64_t step) {
    if (step == 3) net.child("3")->set_mode(nn::Mode::predict);  // nothing is dropped any more
  });
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(changed.losses[i], whole.losses[i]);
  EXPECT_NE(changed.losses[3], whole.losses[3]);
}

std::string complaint(const std::function<void(nn::Block&)>& change,
                      const std::string& frozen = "^4\\.") {
  const nn::BlockPtr net = testing::small_net();
  net->freeze(frozen);
  FitOptions options = testing::small_fit(2);
  std::int64_t steps = 0;
  options.callbacks.push_back(on_step([&](FitContext& context, const StepEvent& event) {
    steps = event.step;
    if (event.step == 2) change(context.net());
  }));
  Trainer trainer = testing::small_trainer(net);
  const std::string text = message_of([&] { trainer.fit(testing::small_images(100), options); });
  EXPECT_EQ(steps, 2);
  return text;
}

constexpr const char* kAdvice =
    "; what a fit trains stays the same to its end: let it end (FitContext::request_stop), then "
    "change it and fit again";

TEST(RunningChange, OtherThingsToTrainAreRefusedByName) {
  EXPECT_EQ(complaint([](nn::Block& net) { net.freeze("^0\\."); }),
            std::string("train: 0.weight was frozen while a fit was running") + kAdvice);
  EXPECT_EQ(complaint([](nn::Block& net) { net.unfreeze(); }),
            std::string("train: 4.weight was unfrozen while a fit was running") + kAdvice);
  EXPECT_EQ(complaint([](nn::Block& net) { net.set_multipliers("^0\\.", 0.5); }),
            std::string("train: 0.weight got other multipliers while a fit was running") + kAdvice);
  EXPECT_EQ(complaint([](nn::Block& net) { net.replace_child("4", nn::dense(testing::kClasses)); }),
            std::string("train: the net got other parameters while a fit was running") + kAdvice);
}

TEST(RunningChange, AModeThatStopsRunningStatisticsIsRefused) {
  EXPECT_EQ(complaint([](nn::Block& net) { net.child("1")->set_mode(nn::Mode::predict); }),
            "train: on a batch of float32[3, 1, 8, 8], int64[3] the net leaves 1.running_mean, on "
            "its first one it updated it: what a fit updates stays the same to its end, and so do "
            "the modes of blocks that have running statistics");
}

float largest(const nn::Block& net, const std::string& name) {
  float most = 0.0F;
  for (const float value : net.parameter(name).data().to_vector<float>())
    most = std::max(most, std::abs(value));
  return most;
}

void clip_weight(nn::Block& net, double limit) {
  const nn::Parameter weight = net.parameter("4.weight");
  weight.set_data(clip(weight.data(), -limit, limit));
}

TEST(RunningChange, WhatIsSetIsWhatTheNextStepBeginsWith) {
  const Course whole = fit_changing([](nn::Block&, std::int64_t) {});
  Course first;
  for (const int threads : {1, 2}) {
    const Course clipped =
        fit_changing([](nn::Block& net, std::int64_t) { clip_weight(net, 0.01); }, threads);
    EXPECT_EQ(clipped.losses[0], whole.losses[0]);
    EXPECT_NE(clipped.losses[1], whole.losses[1]);
    if (threads == 1) first = clipped;
    EXPECT_EQ(clipped.params_sha256, first.params_sha256);
    EXPECT_EQ(clipped.losses, first.losses);
  }
}

TEST(RunningChange, WhatIsSetStaysInTheNetAndInTheResult) {
  const nn::BlockPtr net = testing::small_net();
  FitOptions options = testing::small_fit(2);
  options.callbacks.push_back(
      on_step([](FitContext& context, const StepEvent&) { clip_weight(context.net(), 0.01); }));
  const FitResult result = testing::small_trainer(net).fit(testing::small_images(100), options);
  EXPECT_EQ(largest(*net, "4.weight"), 0.01F);
  std::vector<io::NamedTensor> parameters;
  for (const auto& [name, parameter] : net->parameters())
    parameters.emplace_back(name, parameter.data());
  EXPECT_EQ(io::tensors_sha256(parameters), result.params_sha256);
}

TEST(RunningChange, WhatIsSetIsResumed) {
  const testing::TemporaryFolder folder("set_weights");
  const auto run = [&](std::int64_t epochs, bool resume, const std::string& to) {
    FitOptions options = testing::small_fit(epochs);
    options.checkpoints = to;
    options.resume = resume;
    options.callbacks.push_back(
        on_step([](FitContext& context, const StepEvent&) { clip_weight(context.net(), 0.01); }));
    return testing::small_trainer(testing::small_net())
        .fit(testing::small_images(100), options)
        .params_sha256;
  };
  run(1, false, folder.path() + "/parts");
  EXPECT_EQ(run(2, true, folder.path() + "/parts"), run(2, false, folder.path() + "/whole"));
}

TEST(RunningChange, FreezingAgainWhatIsFrozenChangesNothing) {
  const Course whole = fit_changing([](nn::Block&, std::int64_t) {});
  const Course same = fit_changing([](nn::Block& net, std::int64_t) {
    net.freeze();
    net.unfreeze();
  });
  EXPECT_EQ(same.params_sha256, whole.params_sha256);
}

}  // namespace
}  // namespace lockstep::train
