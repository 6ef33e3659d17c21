// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/io/archive.h"
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
  EXPECT_EQ(message_of([&] { larger->load(path_); }), path_ + ": has no 3.weight, 3.bias");
  EXPECT_FALSE(larger->parameter("0.weight").is_initialized());
  EXPECT_EQ(message_of([&] {
              set_parameters(*larger, {}, "the run", {.ignore_extra = true});
            }).substr(0, 25),
            "the run: has no 0.weight,");
  larger->load(path_, {.allow_missing = true});
  EXPECT_TRUE(larger->parameter("0.weight").is_initialized());
}

TEST_F(BlockFile, AnExtraParameterIsNamedUnlessIgnored) {
  const auto smaller = sequential(dense(4));
  EXPECT_EQ(message_of([&] { smaller->load(path_); }),
            path_ +
                ": has 1.beta, 1.gamma, 1.running_mean, 1.running_var, 2.bias, 2.weight, which "
                "the block has not");
  smaller->load(path_, {.ignore_extra = true});
  EXPECT_EQ(smaller->parameter("0.weight").shape(), (Shape{4, 3}));
}

TEST_F(BlockFile, AShapeThatDiffersIsAnErrorAndNothingChanges) {
  const auto other = net(5);
  other->initialize();
  (*other)(x_);
  const Floats before = other->parameter("2.bias").data().to_vector<float>();
  EXPECT_EQ(message_of([&] { other->load(path_); }),
            path_ + ": 0.weight has shape [4, 3], expected [5, 3]");
  EXPECT_EQ(other->parameter("2.bias").data().to_vector<float>(), before);
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

TEST_F(BlockFile, AnUninitialisedNetCannotBeSaved) {
  EXPECT_EQ(message_of([&] { net()->save(folder_ / "other"); }),
            "0.weight: has no contents yet; call initialize() on the block first");
}

}  // namespace
}  // namespace lockstep::nn
