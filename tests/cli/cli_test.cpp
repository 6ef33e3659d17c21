// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/cli.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/cli/nearest.h"

namespace lockstep::cli {
namespace {

struct Outcome {
  int status = 0;
  std::string out, err;
};

Outcome run_program(std::vector<const char*> words) {
  words.insert(words.begin(), "lockstep");
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.status = run(static_cast<int>(words.size()), words.data());
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(Cli, VersionAndHelpSucceed) {
  EXPECT_EQ(run_program({"--version"}).status, 0);
  EXPECT_EQ(run_program({"--version"}).out.rfind("lockstep ", 0), 0U);
  const Outcome help = run_program({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.out.find("bench"), std::string::npos);
  EXPECT_EQ(help.err, "");
}

TEST(Cli, WrongUsageIsTwoAndOneLineThatNamesTheMistake) {
  const Outcome nothing = run_program({});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_TRUE(nothing.err.starts_with("lockstep: no command was given: there are train, "));
  EXPECT_TRUE(nothing.err.ends_with(" (lockstep --help shows the usage)\n"));
  const Outcome unknown = run_program({"bench", "stp"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_EQ(unknown.err,
            "lockstep: unknown command 'stp'; did you mean step? (lockstep bench --help shows the "
            "usage)\n");
  EXPECT_EQ(run_program({"qqqqq"}).err,
            "lockstep: unknown command 'qqqqq' (lockstep --help shows the usage)\n");
  EXPECT_EQ(
      run_program({"train", "mnist-mlp", "--step", "3"}).err,
      "lockstep: unknown argument '--step'; did you mean --steps? (lockstep train --help shows "
      "the usage)\n");
  const Outcome model = run_program({"bench", "step", "--models", "mnist-mlp,vgg"});
  EXPECT_EQ(model.status, 2);
  EXPECT_NE(model.err.find("vgg not in {mnist-mlp,"), std::string::npos);
  EXPECT_EQ(model.out, "");
}

TEST(Cli, TheNameThatWasMeantIsTheNearest) {
  const std::vector<std::string> names{"train", "eval", "data", "doctor"};
  EXPECT_EQ(nearest("trian", names), "train");
  EXPECT_EQ(nearest("da", names), "data");
  EXPECT_EQ(nearest("evaluate", names), "");
  EXPECT_EQ(nearest("x", names), "");
  EXPECT_EQ(nearest("", names), "");
}

TEST(Cli, FailureIsOneAndSaysWhy) {
  const Outcome step = run_program({"bench", "step-side", "no-such-model"});
  EXPECT_EQ(step.status, 1);
  EXPECT_NE(step.out.find("no-such-model"), std::string::npos);
  const Outcome trained = run_program({"bench", "train-side", "no-such-model", "--batch", "8"});
  EXPECT_EQ(trained.status, 1);
  EXPECT_NE(trained.out.find("no-such-model"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cli
