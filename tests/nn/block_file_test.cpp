// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/io/archive.h"
#include "lockstep/io/tensor_file.h"
#include "lockstep/nn/set_parameters.h"
#include "lockstep/ops/create.h"
#include "tests/message.h"
#include "tests/nn/nets.h"
#include "tests/observe/folder.h"

namespace lockstep::nn {
namespace {

using testing::drawn;
using testing::message_of;
using testing::TemporaryFolder;
using Floats = std::vector<float>;

std::shared_ptr<Sequential> net(std::int64_t units = 4) {
  return sequential(dense(units), batch_norm(), dense(2));
}

class BlockFile : public ::testing::Test {
 protected:
  BlockFile() {
    saved_->initialize(init::normal(1.0), 3);
    (*saved_)(x_);
    saved_->save(path_);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "net.params";
  const Tensor x_ = drawn({5, 3}, 1);
  const std::shared_ptr<Sequential> saved_ = net();
};

TEST_F(BlockFile, GivesBackWhatWasSaved) {
  const auto loaded = net();
  loaded->load(path_);
  EXPECT_EQ((*loaded)(x_).to_vector<float>(), (*saved_)(x_).to_vector<float>());
  EXPECT_TRUE(autograd::requires_grad(loaded->parameter("0.weight").data()));
  EXPECT_FALSE(autograd::requires_grad(loaded->parameter("1.running_mean").data()));
}

TEST_F(BlockFile, OverwritesContentsInPlaceAndConverts) {
  const auto loaded = net();
  loaded->initialize();
  (*loaded)(x_);
  loaded->cast(DType::float64);
  const Tensor weight = loaded->parameter("0.weight").data();
  loaded->load(path_);
  EXPECT_EQ(weight.dtype(), DType::float64);
  EXPECT_EQ(weight.to_vector<float>(), saved_->parameter("0.weight").data().to_vector<float>());
}

TEST_F(BlockFile, IsAnArchiveThatSaysWhatItIs) {
  const io::Archive archive = io::read_archive(path_);
  EXPECT_EQ(archive.metadata, R"({"format":"lockstep-parameters"})");
  ASSERT_EQ(archive.tensors.size(), 8u);
  EXPECT_EQ(archive.tensors[0].first, "0.weight");
  EXPECT_EQ(archive.tensors[4].first, "1.running_mean");
}

TEST_F(BlockFile, AMissingParameterIsNamedUnlessAllowed) {
  const auto larger = net();
  larger->add(dense(3));
  larger->initialize();
  const std::string message = message_of([&] { larger->load(path_); });
  EXPECT_TRUE(message.starts_with(path_ +
                                  ": 8 of the block's 10 parameters fit; 2 are missing in the file "
                                  "(skip_mismatched takes what fits)\n"
                                  "parameter       in the block  in the file  status\n"
                                  "3.weight        [3, -1]       -            missing\n"
                                  "3.bias          [3]           -            missing\n"
                                  "0.weight        [4, -1]       [4, 3]       fits\n"))
      << message;
  EXPECT_FALSE(larger->parameter("0.weight").is_initialized());
  EXPECT_TRUE(message_of([&] {
                set_parameters(*larger, {}, "the run", {.ignore_extra = true});
              }).starts_with("the run: 0 of the block's 10 parameters fit; 10 are missing"));
  larger->load(path_, {.allow_missing = true});
  EXPECT_TRUE(larger->parameter("0.weight").is_initialized());
}

TEST_F(BlockFile, AnExtraParameterIsNamedUnlessIgnored) {
  const auto smaller = sequential(dense(4));
  const std::string message = message_of([&] { smaller->load(path_); });
  EXPECT_TRUE(message.starts_with(path_ + ": 2 of the block's 2 parameters fit; 6 in the file are "
                                          "unexpected (skip_mismatched takes what fits)\n"))
      << message;
  EXPECT_NE(message.find("1.beta          -             [4]          unexpected\n"),
            std::string::npos)
      << message;
  smaller->load(path_, {.ignore_extra = true});
  EXPECT_EQ(smaller->parameter("0.weight").shape(), (Shape{4, 3}));
}

TEST_F(BlockFile, AShapeThatDiffersIsAnErrorAndNothingChanges) {
  const auto other = net(5);
  other->initialize();
  (*other)(x_);
  const Floats before = other->parameter("2.bias").data().to_vector<float>();
  const std::string message = message_of([&] { other->load(path_); });
  EXPECT_TRUE(message.starts_with(path_ + ": 1 of the block's 8 parameters fit; 7 have another"))
      << message;
  EXPECT_NE(message.find("0.weight        [5, 3]        [4, 3]       another shape\n"),
            std::string::npos)
      << message;
  EXPECT_EQ(other->parameter("2.bias").data().to_vector<float>(), before);
}

TEST_F(BlockFile, WhatFitsIsTakenAndWhatDoesNotIsTold) {
  const auto other = sequential(dense(4), batch_norm(), dense(9), dense(1));
  other->initialize(init::zero());
  const LoadReport report = other->load(path_, {.skip_mismatched = true});
  EXPECT_EQ(other->parameter("0.weight").data().to_vector<float>(),
            saved_->parameter("0.weight").data().to_vector<float>());
  EXPECT_EQ(other->parameter("2.bias").data().to_vector<float>(), Floats(9, 0.0F));
  using Names = std::vector<std::string>;
  EXPECT_EQ(report.names(LoadStatus::mismatched), (Names{"2.weight", "2.bias"}));
  EXPECT_EQ(report.names(LoadStatus::missing), (Names{"3.weight", "3.bias"}));
  EXPECT_EQ(report.names(LoadStatus::unexpected), Names{});
  EXPECT_EQ(report.names(LoadStatus::loaded).size(), 6u);
  EXPECT_EQ(report.summary(),
            "6 of the block's 10 parameters fit; 2 have another shape; 2 are missing in the file");
  EXPECT_EQ(report.str(1),
            "parameter   in the block  in the file  status\n"
            "2.weight    [9, -1]       [2, 4]       another shape\n"
            "... 1 more                             another shape\n"
            "3.weight    [1, -1]       -            missing\n"
            "... 1 more                             missing\n"
            "0.weight    [4, -1]       [4, 3]       fits\n"
            "... 5 more                             fits\n");
}

TEST_F(BlockFile, AFileOfWhichNothingFitsIsAnErrorEvenThen) {
  const auto other = sequential(sequential(dense(4)));
  const std::string message = message_of([&] { other->load(path_, {.skip_mismatched = true}); });
  EXPECT_TRUE(message.starts_with(path_ + ": nothing in it fits the block\n")) << message;
}

TEST_F(BlockFile, BadFilesAreTypedErrors) {
  EXPECT_THROW(net()->load(folder_ / "none"), NotFound);
  const std::string bytes = read_file(path_);
  write_file(path_, bytes.substr(0, bytes.size() / 2));
  EXPECT_THROW(net()->load(path_), Corrupt);
  std::string flipped = bytes;
  flipped[bytes.size() - 100] = static_cast<char>(flipped[bytes.size() - 100] ^ 1);
  write_file(path_, flipped);
  EXPECT_THROW(net()->load(path_), Corrupt);
}

TEST_F(BlockFile, EveryFormatThatTheEndingNamesIsWrittenAndRead) {
  for (const auto& [ending, format] :
       {std::pair(".safetensors", io::FileFormat::safetensors),
        std::pair(".npz", io::FileFormat::npz), std::pair(".params", io::FileFormat::native),
        std::pair("", io::FileFormat::native)}) {
    const std::string path = folder_ / ("other" + std::string(ending));
    saved_->save(path);
    EXPECT_EQ(io::format_of_file(path), format);
    const auto loaded = net();
    loaded->load(path);
    EXPECT_EQ((*loaded)(x_).to_vector<float>(), (*saved_)(x_).to_vector<float>()) << ending;
  }
}

TEST_F(BlockFile, AnUninitialisedNetCannotBeSaved) {
  EXPECT_EQ(message_of([&] { net()->save(folder_ / "other"); }),
            "0.weight: has no contents yet; call initialize() on the block first");
}

}  // namespace
}  // namespace lockstep::nn
