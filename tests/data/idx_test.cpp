// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/idx.h"

#include <gtest/gtest.h>

#include "tests/data/files.h"
#include "tests/data/gzipped.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using testing::bytes;
using testing::message_of;
using testing::TemporaryFolder;

std::string corrupt_idx(const std::string& contents) {
  return message_of<Corrupt>([&] { parse_idx(contents, "f"); });
}

// Two images of 1 x 2 pixels.
std::string two_images() {
  return bytes({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 255});
}
std::string two_labels() { return bytes({0, 0, 8, 1, 0, 0, 0, 2, 4, 9}); }

TEST(Idx, EveryTypeIsReadBigEndian) {
  const auto values = [](const std::string& contents) {
    return parse_idx(contents, "f").to_vector<double>();
  };
  EXPECT_EQ(values(bytes({0, 0, 8, 1, 0, 0, 0, 1, 200})), std::vector<double>{200});
  EXPECT_EQ(values(bytes({0, 0, 9, 1, 0, 0, 0, 1, 200})), std::vector<double>{-56});
  EXPECT_EQ(values(bytes({0, 0, 11, 1, 0, 0, 0, 1, 255, 254})), std::vector<double>{-2});
  EXPECT_EQ(parse_idx(bytes({0, 0, 11, 1, 0, 0, 0, 0}), "f").dtype(), DType::int16);
  EXPECT_EQ(values(bytes({0, 0, 12, 1, 0, 0, 0, 1, 0, 1, 0, 2})), std::vector<double>{65538});
  EXPECT_EQ(values(bytes({0, 0, 13, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0})), std::vector<double>{1.5});
  EXPECT_EQ(values(bytes({0, 0, 14, 1, 0, 0, 0, 1, 0xc0, 4, 0, 0, 0, 0, 0, 0})),
            std::vector<double>{-2.5});
}

TEST(Idx, AnEmptyArrayKeepsItsShape) {
  const Tensor empty = parse_idx(bytes({0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0, 3}), "f");
  EXPECT_EQ(empty.shape(), (Shape{0, 3}));
}

TEST(Idx, ImagesGetAChannelAndLabels64Bits) {
  const TemporaryFolder folder;
  const DatasetPtr set = read_idx_images(folder.write("i", two_images()),
                                         folder.write("l", two_labels()), {.classes = 10});
  const Fields batch = set->batch(std::vector<std::int64_t>{1, 0});
  EXPECT_EQ(batch[0].info().str(), "uint8[2, 1, 2, 1]");
  EXPECT_EQ(batch[0].to_vector<int>(), (std::vector<int>{3, 255, 1, 2}));
  EXPECT_EQ(batch[1].info().str(), "int64[2]");
  EXPECT_EQ(batch[1].to_vector<int>(), (std::vector<int>{9, 4}));
}

TEST(Idx, GzipIsSeenWhateverTheName) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_idx(folder.write("plain-name", testing::gzipped(two_labels()))).numel(), 2);
  EXPECT_EQ(read_idx(folder.write("name.gz", two_labels())).numel(), 2);
}

TEST(Idx, GzipInflatesToWhatItsHeaderSaysAndNoFurther) {
  const TemporaryFolder folder;
  const auto complaint = [&](const std::string& contents, std::int64_t most) {
    const std::string path = folder.write("a.gz", testing::gzipped(contents));
    const std::string text = message_of<Corrupt>([&] { read_idx(path, most); });
    return text.substr(std::min(text.size(), path.size()));
  };
  EXPECT_EQ(complaint(two_labels() + std::string(50'000'000, 'x'), kMaxInflated),
            ": gzip: inflates to more than 10 bytes, which is what its header says");
  EXPECT_EQ(complaint(bytes({0, 0, 8, 1, 0, 0, 4, 1}) + std::string(1025, 'x'), 1024),
            ": idx: its header says [1025], which is more than max_inflated, 1024 bytes");
  EXPECT_EQ(complaint(bytes({0, 0, 14, 2, 255, 255, 255, 255, 255, 255, 255, 255}), kMaxInflated),
            ": idx: its header says [4294967295, 4294967295], which is more than max_inflated, "
            "1073741824 bytes");
}

TEST(Idx, AMissingFileIsNamed) {
  EXPECT_EQ(message_of<NotFound>([] { read_idx("/no/such-idx"); }),
            "/no/such-idx: cannot open: no such file or folder");
}

TEST(Idx, AWrongMagicIsCorrupt) {
  const std::string expected =
      ", expected 00 00, a type (08, 09, 0b, 0c, 0d or 0e) and a rank from 1";
  EXPECT_EQ(corrupt_idx("\x89PNG...."), "f: idx: begins with 89 50 4e 47" + expected);
  EXPECT_EQ(corrupt_idx(bytes({0, 0, 10, 1, 0, 0, 0, 0})),
            "f: idx: begins with 00 00 0a 01" + expected);
  EXPECT_EQ(corrupt_idx(bytes({0, 0, 8, 0})), "f: idx: begins with 00 00 08 00" + expected);
  EXPECT_EQ(corrupt_idx(bytes({0, 0, 8, 200})), "f: idx: rank 200, at most 8 is supported");
}

TEST(Idx, ATruncatedFileIsCorrupt) {
  EXPECT_EQ(corrupt_idx(""), "f: idx: has 0 bytes, a header has at least 4");
  EXPECT_EQ(corrupt_idx(two_images().substr(0, 10)),
            "f: idx: has 10 bytes, its header alone has 16");
  EXPECT_EQ(corrupt_idx(two_images().substr(0, 19)),
            "f: idx: its header says [2, 1, 2], the file has 3 bytes after the header");
  EXPECT_EQ(corrupt_idx(bytes({0, 0, 12, 1, 0, 0, 0, 2, 0, 0, 0, 1})),
            "f: idx: has 12 bytes, its header says [2], which takes 16");
}

TEST(Idx, BytesAfterTheEndAreCorrupt) {
  EXPECT_EQ(corrupt_idx(two_labels() + "x"),
            "f: idx: has 11 bytes, its header says [2], which takes 10");
}

TEST(Idx, AHeaderThatPromisesTheWorldAllocatesNothing) {
  EXPECT_EQ(corrupt_idx(bytes({0, 0, 14, 2, 255, 255, 255, 255, 255, 255, 255, 255})),
            "f: idx: its header says [4294967295, 4294967295], the file has 0 bytes after the "
            "header");
  EXPECT_EQ(corrupt_idx(bytes({0, 0, 8, 3, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255})),
            "f: idx: its header says [0, 4294967295, 4294967295], the file has 0 bytes after the "
            "header");
}

TEST(Idx, ImagesAndLabelsMustBeAsMany) {
  const TemporaryFolder folder;
  const std::string images = folder.write("i", two_images());
  const std::string labels = folder.write("l", bytes({0, 0, 8, 1, 0, 0, 0, 1, 4}));
  EXPECT_EQ(message_of<Corrupt>([&] { read_idx_images(images, labels); }),
            labels + ": has 1 labels, " + images + " has 2 images");
}

TEST(Idx, ImagesAndLabelsMustNotBeSwapped) {
  const TemporaryFolder folder;
  const std::string images = folder.write("i", two_images());
  const std::string labels = folder.write("l", two_labels());
  EXPECT_EQ(message_of<Corrupt>([&] { read_idx_images(labels, images); }),
            labels + ": idx: has uint8[2], images are uint8 [N, H, W]");
  EXPECT_EQ(message_of<Corrupt>([&] { read_idx_images(images, images); }),
            images + ": idx: has uint8[2, 1, 2], labels are integers [N]");
}

TEST(Idx, ALabelOutOfRangeIsNamed) {
  const TemporaryFolder folder;
  const std::string images = folder.write("i", two_images());
  const std::string labels = folder.write("l", two_labels());
  EXPECT_EQ(message_of<Corrupt>([&] { read_idx_images(images, labels, {.classes = 9}); }),
            labels + ": label 9 of sample 1, expected 0 to 8");
}

}  // namespace
}  // namespace lockstep::data
