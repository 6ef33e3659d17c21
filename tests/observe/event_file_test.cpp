// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/event_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "lockstep/base/file.h"
#include "tests/message.h"
#include "tests/observe/folder.h"
#include "tests/observe/full_disk.h"
#include "tests/observe/wire.h"

namespace lockstep::observe {
namespace {

namespace fs = std::filesystem;
using lockstep::testing::FullDisk;
using lockstep::testing::message_of;
using lockstep::testing::TemporaryFolder;
using lockstep::testing::WireMessage;
using lockstep::testing::write_quickly;

double noon() { return 1700000000.5; }

// The numbers of the fields, as TensorBoard's schema has them.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kValue = 1, kTag = 1, kSimpleValue = 2, kImage = 4, kHisto = 5, kTensor = 8;

WireMessage event(const EventWriter& writer, std::size_t i) {
  return WireMessage(read_records(writer.path()).at(i));
}

// The one value of the first event after the file's head.
WireMessage first_value(const EventWriter& writer) {
  return event(writer, 2).message(kSummary).message(kValue);
}

TEST(EventFile, IsNamedSoThatTensorBoardFindsIt) {
  const TemporaryFolder folder;
  const EventWriter writer(folder / "a/events", 0, noon);
  const std::string name = fs::path(writer.path()).filename();
  EXPECT_TRUE(name.starts_with("events.out.tfevents.1700000000.")) << name;
  EXPECT_TRUE(fs::exists(writer.path()));
}

TEST(EventFile, TwoWritersHaveTwoFiles) {
  const TemporaryFolder folder;
  const EventWriter one(folder.path(), 0, noon), two(folder.path(), 0, noon);
  EXPECT_NE(one.path(), two.path());
}

TEST(EventFile, BeginsWithTheVersionAndTheFirstStep) {
  const TemporaryFolder folder;
  const EventWriter writer(folder.path(), 41, noon);
  EXPECT_EQ(event(writer, 0).number<double>(kWallTime), noon());
  EXPECT_EQ(event(writer, 0).bytes(kFileVersion), "brain.Event:2");
  EXPECT_EQ(event(writer, 1).number<std::int64_t>(kStep), 41);
  EXPECT_EQ(event(writer, 1).message(kSessionLog).number<std::int64_t>(1), 1);
}

// The first record as TensorFlow's own writers leave it at second 256.5.
TEST(EventFile, BeginsWithTheVeryBytesOfTensorFlow) {
  const TemporaryFolder folder;
  const EventWriter writer(folder.path(), 0, [] { return 256.5; });
  const std::string length("\x18\0\0\0\0\0\0\0\xA3\x7F\x4B\x22", 12);
  const std::string time("\x09\0\0\0\0\0\x08\x70\x40", 9);
  EXPECT_EQ(read_file(writer.path()).substr(0, 40),
            length + time + "\x1A\x0D" + "brain.Event:2" + "\xBC\x98\x21\x2B");
}

TEST(EventFile, HoldsScalars) {
  const TemporaryFolder folder;
  EventWriter writer(folder.path(), 0, noon);
  writer.scalar("loss/train", 7, 0.25);
  EXPECT_EQ(event(writer, 2).number<std::int64_t>(kStep), 7);
  EXPECT_EQ(first_value(writer).bytes(kTag), "loss/train");
  EXPECT_EQ(first_value(writer).number<float>(kSimpleValue), 0.25f);
}

TEST(EventFile, HoldsImages) {
  const TemporaryFolder folder;
  EventWriter writer(folder.path(), 0, noon);
  const std::string png("\x89PNG\0bytes", 10);
  writer.image("samples", 7, {.width = 28, .height = 20, .channels = 1, .png = png});
  const WireMessage image = first_value(writer).message(kImage);
  EXPECT_EQ(image.number<std::int64_t>(1), 20);
  EXPECT_EQ(image.number<std::int64_t>(2), 28);
  EXPECT_EQ(image.number<std::int64_t>(3), 1);
  EXPECT_EQ(image.bytes(4), png);
}

TEST(EventFile, HoldsHistograms) {
  const TemporaryFolder folder;
  EventWriter writer(folder.path(), 0, noon);
  const std::vector<float> values = {-1.5f, 0.5f, 0.5f, 2.0f};
  writer.histogram("weights/fc1", 7, values);
  const WireMessage histogram = first_value(writer).message(kHisto);
  EXPECT_EQ(histogram.number<double>(1), -1.5);
  EXPECT_EQ(histogram.number<double>(2), 2.0);
  EXPECT_EQ(histogram.number<double>(3), 4);
  EXPECT_EQ(histogram.number<double>(4), 1.5);
  EXPECT_EQ(histogram.number<double>(5), 6.75);
  const std::vector<double> limits = histogram.packed_doubles(6),
                            counts = histogram.packed_doubles(7);
  ASSERT_EQ(limits.size(), counts.size());
  EXPECT_EQ(counts, (std::vector<double>{0, 1, 0, 2, 0, 1}));
}

TEST(EventFile, HoldsText) {
  const TemporaryFolder folder;
  EventWriter writer(folder.path(), 0, noon);
  writer.text("sample", 7, "Call me *Ishmael*.");
  const WireMessage tensor = first_value(writer).message(kTensor);
  EXPECT_EQ(tensor.number<std::int64_t>(1), 7);  // a string
  EXPECT_EQ(tensor.message(2).message(2).number<std::int64_t>(1), 1);
  EXPECT_EQ(tensor.bytes(8), "Call me *Ishmael*.");
  EXPECT_EQ(first_value(writer).message(9).message(1).bytes(1), "text");
}

TEST(EventFile, ATagThatIsNotUtf8BecomesReadable) {
  const TemporaryFolder folder;
  EventWriter writer(folder.path(), 0, noon);
  writer.scalar("caf\xE9", 7, 1);
  EXPECT_EQ(first_value(writer).bytes(kTag), "caf?");
}

TEST(EventFile, AnyChangedByteIsSeen) {
  const TemporaryFolder folder;
  EventWriter writer(folder.path(), 0, noon);
  const std::string good = read_file(writer.path());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    write_quickly(writer.path(), bad);
    EXPECT_THROW(read_records(writer.path()), Corrupt) << i;
  }
}

TEST(EventFile, ACutOffRecordIsNamed) {
  const TemporaryFolder folder;
  const EventWriter writer(folder.path(), 0, noon);
  const std::string good = read_file(writer.path());
  write_quickly(folder / "f", good.substr(0, 5));
  EXPECT_EQ(message_of<Corrupt>([&] { read_records(folder / "f"); }),
            (folder / "f") + ": record 0 at byte 0 is cut off");
  write_quickly(folder / "f", good.substr(0, good.size() - 1));
  EXPECT_EQ(message_of<Corrupt>([&] { read_records(folder / "f"); }),
            (folder / "f") + ": record 1 at byte 40 is cut off");
  std::string bad = good;
  bad[13] = 'x';
  write_quickly(folder / "f", bad);
  EXPECT_EQ(message_of<Corrupt>([&] { read_records(folder / "f"); }),
            (folder / "f") + ": record 0 at byte 0 has a wrong checksum");
}

TEST(EventFile, AFullDiskIsAnIoErrorAndLeavesWholeRecords) {
  const TemporaryFolder folder;
  EventWriter writer(folder.path(), 0, noon);
  {
    const FullDisk disk(fs::file_size(writer.path()) + 10);
    EXPECT_EQ(message_of<IoError>([&] { writer.scalar("loss", 1, 1); }),
              writer.path() + ": cannot write: File too large");
    EXPECT_EQ(read_records(writer.path()).size(), 2u);
  }
  writer.scalar("loss", 1, 1);
  EXPECT_EQ(read_records(writer.path()).size(), 3u);
}

TEST(EventFile, AFolderThatCannotBeMadeIsAnIoErrorWithThePath) {
  const TemporaryFolder folder;
  write_quickly(folder / "file", "");
  EXPECT_EQ(message_of<IoError>([&] { EventWriter(folder / "file/events"); }),
            (folder / "file/events") + ": cannot create: Not a directory");
}

}  // namespace
}  // namespace lockstep::observe
