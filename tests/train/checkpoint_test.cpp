// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/checkpoint.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using testing::FileSizeLimit;
using testing::message_of;

Checkpoint checkpoint_of(std::int64_t step, std::optional<double> metric = {}) {
  Checkpoint checkpoint;
  checkpoint.step = step;
  checkpoint.seed = 18446744073709551615U;
  checkpoint.configuration = R"({"shards":8})";
  checkpoint.training = R"({"sum":0.1})";
  checkpoint.parameters = {{"fc.weight", Tensor::full({2, 3}, static_cast<double>(step))}};
  checkpoint.slots = {{"slot0/fc.weight", Tensor::full({2, 3}, 0.5)}};
  checkpoint.metric = metric;
  return checkpoint;
}

class Checkpoints : public ::testing::Test {
 protected:
  CheckpointOptions options(std::int64_t keep_last = 2) {
    return {.keep_last = keep_last, .keep_best = true, .warn = [this](const std::string& line) {
              warnings_.push_back(line);
            }};
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> steps;
    for (const CheckpointFile& file : list_checkpoints(folder_)) steps.push_back(file.step);
    return steps;
  }
  std::string path(std::int64_t step) const {
    return fmt::format("{}/step-{:08}.ckpt", folder_, step);
  }
  void damage(std::int64_t step) const {
    std::string bytes = read_file(path(step));
    bytes[bytes.size() - 100] ^= 1;
    write_file(path(step), bytes);
  }

  testing::TemporaryFolder owner_{"checkpoint_test"};
  std::string folder_ = owner_.path() + "/run/checkpoints";
  std::vector<std::string> warnings_;
};

TEST_F(Checkpoints, KeepEverythingThatARunNeeds) {
  CheckpointStore store(folder_, options());
  EXPECT_FALSE(store.load_newest());
  store.write(checkpoint_of(12, 0.25));
  EXPECT_TRUE(store.wait());
  const Checkpoint again = store.load_newest().value();
  EXPECT_EQ(again.step, 12);
  EXPECT_EQ(again.seed, 18446744073709551615U);
  EXPECT_EQ(again.configuration, R"({"shards":8})");
  EXPECT_EQ(again.training, R"({"sum":0.1})");
  EXPECT_EQ(again.metric, 0.25);
  EXPECT_EQ(again.best_step, 12);
  EXPECT_EQ(again.best_metric, 0.25);
  ASSERT_EQ(again.parameters.size(), 1U);
  EXPECT_EQ(again.parameters[0].first, "fc.weight");
  EXPECT_EQ(again.parameters[0].second.to_vector<float>(), std::vector<float>(6, 12.0F));
  EXPECT_EQ(again.params_sha256, io::tensors_sha256(again.parameters));
  ASSERT_EQ(again.slots.size(), 1U);
  EXPECT_EQ(again.slots[0].first, "slot0/fc.weight");
  EXPECT_EQ(again.slots[0].second.to_vector<float>(), std::vector<float>(6, 0.5F));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Checkpoints, TheLastOnesAndTheBestStay) {
  CheckpointStore store(folder_, options(2));
  const double metrics[] = {0.1, 0.9, 0.3, 0.9, 0.2, 0.4};
  for (int i = 0; i < 6; ++i) store.write(checkpoint_of(10 * i, metrics[i]));
  store.wait();
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{10, 40, 50}));
  EXPECT_EQ(store.load_newest()->best_step, 10);
}

TEST_F(Checkpoints, TheBestMayBeTheSmallest) {
  CheckpointStore store(folder_, options(1));
  const std::optional<double> metrics[] = {0.5, 0.2, {}, 0.3};
  for (int i = 0; i < 4; ++i) {
    Checkpoint checkpoint = checkpoint_of(i + 1, metrics[i]);
    checkpoint.maximize = false;
    store.write(std::move(checkpoint));
  }
  store.wait();
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{2, 4}));
}

TEST_F(Checkpoints, AStoreThatReadsOneKnowsItsBest) {
  {
    CheckpointStore store(folder_, options(1));
    store.write(checkpoint_of(1, 0.9));
    store.write(checkpoint_of(2, 0.1));
  }
  CheckpointStore store(folder_, options(1));
  EXPECT_EQ(store.load_newest()->step, 2);
  store.write(checkpoint_of(3, 0.5));
  store.wait();
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1, 3}));
}

TEST_F(Checkpoints, TheOneBeforeADamagedOneIsTakenAndToldOf) {
  CheckpointStore store(folder_, options(3));
  for (int step : {1, 2, 3}) store.write(checkpoint_of(step));
  store.wait();
  damage(3);
  write_file(path(2), "short");
  EXPECT_EQ(store.load_newest()->step, 1);
  ASSERT_EQ(warnings_.size(), 2U);
  EXPECT_EQ(warnings_[0], path(3) +
                              ": its checksum does not fit its contents; taking the "
                              "checkpoint before it");
  EXPECT_EQ(warnings_[1],
            path(2) + ": is no Lockstep archive: 5 bytes; taking the checkpoint before it");
}

TEST_F(Checkpoints, ADamagedLaterOneTakesNoGoodOnesPlace) {
  CheckpointStore store(folder_, options(1));
  store.write(checkpoint_of(5));
  store.write(checkpoint_of(10));
  store.wait();
  damage(10);
  store.write(checkpoint_of(7));
  store.wait();
  EXPECT_EQ(store.load_newest()->step, 7);
}

TEST_F(Checkpoints, WhenNoneIsGoodAllAreListed) {
  CheckpointStore store(folder_, options(3));
  for (int step : {1, 2}) store.write(checkpoint_of(step));
  store.wait();
  damage(1);
  damage(2);
  EXPECT_EQ(message_of<Corrupt>([&] { store.load_newest(); }),
            folder_ + ": no checkpoint is good: " + path(2) +
                ": its checksum does not fit its contents; " + path(1) +
                ": its checksum does not fit its contents");
}

TEST_F(Checkpoints, AnotherArchiveIsNoCheckpoint) {
  const std::string other = owner_.path() + "/model.params";
  io::write_archive(other, {.metadata = "{}", .tensors = {}});
  EXPECT_EQ(message_of<Corrupt>([&] { read_checkpoint(other); }),
            other + ": is no checkpoint: its metadata does not tell the step and the seed");
  io::write_archive(other, {.metadata = R"({"format": 7})", .tensors = {}});
  EXPECT_EQ(message_of<Corrupt>([&] { read_checkpoint(other); }),
            other + ": is a checkpoint of format 7, this build reads 1");
  io::write_archive(other, {.metadata = R"({"format": 1, "step": -3, "seed": 0})", .tensors = {}});
  EXPECT_EQ(message_of<Corrupt>([&] { read_checkpoint(other); }),
            other + ": is of step -3, expected 0 or more");
  io::write_archive(other, {.metadata = std::string(1'000'000, '['), .tensors = {}});
  EXPECT_EQ(message_of<Corrupt>([&] { read_checkpoint(other); }),
            other + ": its metadata nests deeper than 64");
}

TEST_F(Checkpoints, AFullDiskIsOneWarningAndLeavesTheLastGoodOne) {
  CheckpointStore store(folder_, options(1));
  store.write(checkpoint_of(1));
  store.wait();
  {
    const FileSizeLimit limit(200);
    store.write(checkpoint_of(2));
    EXPECT_FALSE(store.wait());
  }
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(warnings_[0],
            "checkpoint of step 2 is not written: " + path(2) + ": cannot write: File too large");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  EXPECT_EQ(store.load_newest()->step, 1);
  store.write(checkpoint_of(3));
  EXPECT_TRUE(store.wait());
  EXPECT_EQ(warnings_.size(), 1U);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{3}));
}

TEST_F(Checkpoints, WhatAKilledProcessLeftHalfWrittenGoesAway) {
  fs::create_directories(folder_);
  write_file(path(3) + ".tmp4711-00c0ffee", "half");
  write_file(folder_ + "/notes.tmp1", "the user's");
  CheckpointStore store(folder_, options());
  store.write(checkpoint_of(1));
  store.wait();
  EXPECT_FALSE(fs::exists(path(3) + ".tmp4711-00c0ffee"));
  EXPECT_TRUE(fs::exists(folder_ + "/notes.tmp1"));
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{1}));
}

TEST_F(Checkpoints, TheWriteOnItsWayEndsBeforeTheStoreDoes) {
  Checkpoint large = checkpoint_of(1);
  large.parameters = {{"w", Tensor::zeros({1 << 20})}};
  CheckpointStore(folder_, options()).write(large);
  EXPECT_EQ(read_checkpoint(path(1)).step, 1);
}

}  // namespace
}  // namespace lockstep::train
