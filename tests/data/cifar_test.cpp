// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/cifar.h"

#include <gtest/gtest.h>

#include "tests/data/files.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

// Red is `label`, green its double, blue counts.
std::string record(int label) {
  std::string result(1, static_cast<char>(label));
  result += std::string(1024, static_cast<char>(label));
  result += std::string(1024, static_cast<char>(2 * label));
  for (int i = 0; i < 1024; ++i) result.push_back(static_cast<char>(i));
  return result;
}

TEST(Cifar, PlanesBecomePixels) {
  const CifarBatch batch = parse_cifar(record(3) + record(9), "f");
  EXPECT_EQ(batch.images.info().str(), "uint8[2, 32, 32, 3]");
  EXPECT_EQ(batch.labels.to_vector<int>(), (std::vector<int>{3, 9}));
  const auto* second = batch.images.data<std::uint8_t>() + 3072;
  EXPECT_EQ(std::vector<int>(second, second + 6), (std::vector<int>{9, 18, 0, 9, 18, 1}));
  EXPECT_EQ(second[3071], 1023 % 256);
}

TEST(Cifar, WhatIsWrittenIsWhatWasRead) {
  const std::string bytes = record(0) + record(7) + record(5);
  EXPECT_EQ(format_cifar(parse_cifar(bytes, "f")), bytes);
}

TEST(Cifar, BatchesFollowOneAnother) {
  const TemporaryFolder folder;
  const DatasetPtr set =
      read_cifar({folder.write("1", record(1) + record(2)), folder.write("2", record(3))}, 0);
  EXPECT_EQ(set->size(), 3);
  EXPECT_EQ(set->sample(2)[1].item(), 3);
  EXPECT_EQ(set->sample(2)[0].to_vector<int>()[1], 6);
  EXPECT_EQ(set->class_names()[9], "truck");
}

TEST(Cifar, AWrongSizeIsCorrupt) {
  EXPECT_EQ(message_of<Corrupt>([] { parse_cifar(record(1).substr(1), "f"); }),
            "f: cifar: has 3072 bytes, expected a multiple of 3073");
  EXPECT_EQ(message_of<Corrupt>([] { parse_cifar("", "f"); }),
            "f: cifar: has 0 bytes, expected a multiple of 3073");
}

TEST(Cifar, AFileWithTooFewRecordsIsCorrupt) {
  const TemporaryFolder folder;
  const std::string path = folder.write("b", record(1));
  EXPECT_EQ(message_of<Corrupt>([&] { read_cifar({path}); }),
            path + ": cifar: has 3073 bytes, 10000 records of 3073 bytes take 30730000");
}

TEST(Cifar, ALabelOutOfRangeIsNamed) {
  EXPECT_EQ(message_of<Corrupt>([] { parse_cifar(record(1) + record(10), "f"); }),
            "f: label 10 of sample 1, expected 0 to 9");
}

TEST(Cifar, AMissingFileIsNamed) {
  EXPECT_EQ(message_of<NotFound>([] { read_cifar({"/no/data_batch_1.bin"}); }),
            "/no/data_batch_1.bin: cannot open: no such file or folder");
}

TEST(Cifar, ImagesOfAnotherShapeAreNotWritten) {
  EXPECT_EQ(message_of([] {
              format_cifar(
                  {Tensor::zeros({1, 28, 28, 1}, DType::uint8), Tensor::zeros({1}, DType::int64)});
            }),
            "cifar: images are [1, 28, 28, 1], expected [1, 32, 32, 3]");
}

}  // namespace
}  // namespace lockstep::data
