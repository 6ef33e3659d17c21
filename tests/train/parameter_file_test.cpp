// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/parameter_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/file.h"
#include "lockstep/train/checkpoint.h"
#include "tests/message.h"
#include "tests/observe/folder.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryFolder;

void write_checkpoint(const std::string& folder, std::int64_t step) {
  Checkpoint checkpoint;
  checkpoint.step = step;
  checkpoint.configuration = checkpoint.training = "{}";
  checkpoint.parameters = {{"fc.weight", Tensor::full({2}, static_cast<double>(step))}};
  checkpoint.slots = {{"slot0/fc.weight", Tensor::full({2}, 0.5)}};
  CheckpointStore(folder).write(checkpoint);
}

void expect_step(const std::vector<io::NamedTensor>& tensors, double step) {
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].first, "fc.weight");
  EXPECT_EQ(tensors[0].second.to_vector<double>()[0], step);
}

TEST(ParameterFile, ARunACheckpointAndAFileGiveTheirParameters) {
  const TemporaryFolder folder;
  const std::string run = folder / "run", checkpoints = run + "/checkpoints";
  fs::create_directories(checkpoints);
  write_file(run + "/config.json", "{}");
  EXPECT_EQ(message_of<NotFound>([&] { load_parameters(run); }), run + ": has no checkpoint yet");
  write_checkpoint(checkpoints, 3);
  write_checkpoint(checkpoints, 7);
  expect_step(load_parameters(run), 7);
  expect_step(load_parameters(checkpoints), 7);
  expect_step(load_parameters(checkpoints + "/step-00000003.ckpt"), 3);
  io::save_tensors(folder / "net.npz", load_parameters(run));
  expect_step(load_parameters(folder / "net.npz"), 7);
  io::save_tensors(folder / "net.lockstep", load_parameters(run));
  expect_step(load_parameters(folder / "net.lockstep"), 7);
}

TEST(ParameterFile, ABadCheckpointIsAWarningAndTheOneBeforeItIsTaken) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), 3);
  write_checkpoint(folder.path(), 7);
  write_file(folder / "step-00000007.ckpt", "LOCKSTEP");
  std::vector<std::string> warnings;
  expect_step(load_parameters(folder.path(), {}, {},
                              [&](const std::string& line) { warnings.push_back(line); }),
              3);
  EXPECT_EQ(warnings.size(), 1u);
}

TEST(ParameterFile, AFolderWithoutARunIsNamed) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of<NotFound>([&] { load_parameters(folder.path()); }),
            fmt::format("run: '{}' has no config.json, so it is not a run", folder.path()));
  EXPECT_THROW(load_parameters(folder / "none"), NotFound);
}

}  // namespace
}  // namespace lockstep::train
