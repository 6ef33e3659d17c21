// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/cli.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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
  EXPECT_EQ(nothing.err, "lockstep: A subcommand is required (lockstep --help shows the usage)\n");
  const Outcome unknown = run_program({"bench", "stp"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_EQ(unknown.err,
            "lockstep: unknown argument 'stp' (lockstep bench --help shows the usage)\n");
  const Outcome model = run_program({"bench", "step", "--models", "mnist-mlp,vgg"});
  EXPECT_EQ(model.status, 2);
  EXPECT_NE(model.err.find("vgg not in {mnist-mlp,"), std::string::npos);
  EXPECT_EQ(model.out, "");
}

TEST(Cli, FailureIsOneAndSaysWhy) {
  const Outcome worker = run_program({"bench", "worker", "no-such-model"});
  EXPECT_EQ(worker.status, 1);
  EXPECT_NE(worker.out.find("no-such-model"), std::string::npos);
  const Outcome trained = run_program({"bench", "train-worker", "no-such-model", "--batch", "8"});
  EXPECT_EQ(trained.status, 1);
  EXPECT_NE(trained.out.find("no-such-model"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cli
