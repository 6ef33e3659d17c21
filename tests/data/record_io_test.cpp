// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/record_io.h"

#include <gtest/gtest.h>

#include "tests/data/files.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using testing::bytes;
using testing::message_of;
using testing::TemporaryFolder;

const std::string kMagic = bytes({0x0a, 0x23, 0xd7, 0xce});

std::string write_records(const TemporaryFolder& folder, const std::vector<std::string>& records) {
  RecordWriter writer(folder.path("a.rec"), folder.path("a.idx"));
  for (const std::string& record : records) writer.write(record);
  writer.finish();
  return folder.path("a.rec");
}

std::vector<std::string> read_all(const RecordFile& file, std::int64_t part = 0,
                                  std::int64_t parts = 1) {
  std::vector<std::string> records;
  for (const std::uint64_t offset : file.offsets(part, parts))
    records.push_back(file.read(offset).bytes);
  return records;
}

std::string corrupt_record(const std::string& contents, std::uint64_t offset = 0) {
  return message_of<Corrupt>([&] { RecordFile::from_bytes(contents, "f").read(offset); });
}

// Records with the magic number in every place that matters.
std::vector<std::string> awkward_records() {
  return {"",
          "abc",
          kMagic,
          kMagic + kMagic,
          "abcd" + kMagic + "efgh",
          "abc" + kMagic + "unaligned",
          "abcd" + kMagic,
          "abcd" + kMagic + "e" + kMagic + "xyz" + kMagic + "12"};
}

TEST(RecordIo, TheBytesAreTheFormats) {
  const TemporaryFolder folder;
  const std::string path = write_records(folder, {"abcde", "wxyz" + kMagic + "q"});
  EXPECT_EQ(read_file(path), kMagic + bytes({5, 0, 0, 0}) + "abcde" + bytes({0, 0, 0}) +  //
                                 kMagic + bytes({4, 0, 0, 0x20}) + "wxyz" +               //
                                 kMagic + bytes({1, 0, 0, 0x60}) + "q" + bytes({0, 0, 0}));
  EXPECT_EQ(read_file(folder.path("a.idx")), "0\t0\n1\t16\n");
}

TEST(RecordIo, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  const RecordFile file = RecordFile::open(write_records(folder, awkward_records()));
  EXPECT_EQ(read_all(file), awkward_records());
}

TEST(RecordIo, RecordsFollowOneAnother) {
  const TemporaryFolder folder;
  const RecordFile file = RecordFile::open(write_records(folder, awkward_records()));
  std::vector<std::string> records;
  for (std::uint64_t at = 0; at < file.size();) {
    RecordFile::Record record = file.read(at);
    records.push_back(std::move(record.bytes));
    at = record.next;
  }
  EXPECT_EQ(records, awkward_records());
}

TEST(RecordIo, EveryRecordIsInExactlyOnePart) {
  const TemporaryFolder folder;
  std::vector<std::string> records = awkward_records();
  for (int i = 0; i < 40; ++i) records.push_back(std::string(static_cast<std::size_t>(i * 7), 'x'));
  records.push_back(std::string(200000, 'y'));
  records.push_back("end");
  const RecordFile file = RecordFile::open(write_records(folder, records));
  for (const std::int64_t parts : {1, 2, 3, 7, 100, 1000}) {
    std::vector<std::string> together;
    for (std::int64_t part = 0; part < parts; ++part)
      for (std::string& record : read_all(file, part, parts)) together.push_back(std::move(record));
    EXPECT_EQ(together, records) << parts;
  }
}

TEST(RecordIo, DamageIsCorrupt) {
  const std::string good = kMagic + bytes({3, 0, 0, 0}) + "abc" + bytes({0});
  EXPECT_EQ(corrupt_record("12345678"), "f: record: 34333231 at offset 0, expected ced7230a");
  EXPECT_EQ(corrupt_record(good, 12), "f: record: no room for a record at offset 12 of 12 bytes");
  EXPECT_EQ(corrupt_record(good, 2), "f: record: no room for a record at offset 2 of 12 bytes");
  EXPECT_EQ(corrupt_record(good.substr(0, 11)),
            "f: record: 3 bytes at offset 0, the file has 3 more");
  EXPECT_EQ(corrupt_record(kMagic + bytes({255, 255, 255, 31})),
            "f: record: 536870911 bytes at offset 0, the file has 0 more");
}

TEST(RecordIo, PartsOutOfOrderAreCorrupt) {
  const std::string first = kMagic + bytes({0, 0, 0, 0x20});
  const std::string whole = kMagic + bytes({0, 0, 0, 0});
  const std::string last = kMagic + bytes({0, 0, 0, 0x60});
  EXPECT_EQ(corrupt_record(last), "f: record: part of kind 3 at offset 0 does not fit there");
  EXPECT_EQ(corrupt_record(first + whole),
            "f: record: part of kind 0 at offset 8 does not fit there");
  EXPECT_EQ(corrupt_record(first), "f: record: no room for a record at offset 8 of 8 bytes");
  EXPECT_EQ(corrupt_record(first + kMagic + bytes({0, 0, 0, 0xa0})),
            "f: record: part of kind 5 at offset 8 does not fit there");
}

TEST(RecordIo, AnUnfinishedFileDoesNotAppear) {
  const TemporaryFolder folder;
  { RecordWriter(folder.path("a.rec"), folder.path("a.idx")).write("abc"); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(RecordWriter(folder.path("no/a.rec")), NotFound);
}

TEST(RecordIo, AMissingFileIsNamed) {
  EXPECT_EQ(message_of<NotFound>([] { RecordFile::open("/no/a.rec"); }),
            "/no/a.rec: cannot open: no such file or folder");
}

TEST(RecordIo, AnIndexErrorNamesTheLine) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.idx", "0\t0\r\n\n1 24\n");
  EXPECT_EQ(message_of<Corrupt>([&] { read_record_index(path); }),
            path + ":3: '1 24', expected a key, a tab and an offset");
}

ImageRecord image_record(std::vector<float> labels, int value) {
  return {std::move(labels), 5, 6, encode_png(Tensor::full({2, 2}, value, DType::uint8))};
}

TEST(ImageRecords, LabelsAndImagesComeBack) {
  for (const std::vector<float>& labels : {std::vector<float>{3}, std::vector<float>{1, 2.5, -1}}) {
    const ImageRecord record = image_record(labels, 9);
    const ImageRecord read = unpack_image_record(pack_image_record(record), "f");
    EXPECT_EQ(read.labels, labels);
    EXPECT_EQ(read.id, 5);
    EXPECT_EQ(read.second_id, 6);
    EXPECT_EQ(read.image, record.image);
  }
}

TEST(ImageRecords, TheHeaderIsTheFormats) {
  EXPECT_EQ(pack_image_record({{1.0F}, 2, 3, "jpg"}),
            bytes({0, 0, 0, 0, 0, 0, 0x80, 0x3f, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}) +
                "jpg");
}

TEST(ImageRecords, AreASetWithAndWithoutAnIndex) {
  const TemporaryFolder folder;
  const std::string path = write_records(
      folder, {pack_image_record(image_record({4}, 1)), pack_image_record(image_record({7}, 2)),
               pack_image_record(image_record({8}, 3))});
  for (const std::string& index : {std::string(), folder.path("a.idx")}) {
    const DatasetPtr set = read_image_records(path, index, {.classes = 10});
    ASSERT_EQ(set->size(), 3);
    const Fields batch = set->batch(std::vector<std::int64_t>{2, 0});
    EXPECT_EQ(batch[0].info().str(), "uint8[2, 2, 2, 3]");
    EXPECT_EQ(batch[1].to_vector<int>(), (std::vector<int>{8, 4}));
  }
  EXPECT_EQ(read_image_records(path, folder.path("a.idx"), {.part = 1, .parts = 2})->size(), 2);
  EXPECT_EQ(read_image_records(path, "", {.float_labels = true})->sample(0)[1].info().str(),
            "float32[1]");
}

TEST(ImageRecords, BadOnesAreNamed) {
  const TemporaryFolder folder;
  const std::string path = write_records(
      folder, {"short", pack_image_record(image_record({1, 2}, 1)),
               pack_image_record(image_record({1.5}, 1)), pack_image_record(image_record({10}, 1)),
               pack_image_record({{1}, 0, 0, "GIF8"})});
  const DatasetPtr set = read_image_records(path, "", {.classes = 10});
  const auto message = [&](std::int64_t index) {
    const std::string text = message_of<Corrupt>([&] { set->sample(index); });
    EXPECT_TRUE(text.starts_with(path + ": record at ")) << text;
    return text.substr(text.find(": ", path.size() + 2) + 2);
  };
  EXPECT_EQ(message(0), "has 5 bytes, an image's header has 24");
  EXPECT_EQ(message(1), "has 2 labels, expected one");
  EXPECT_EQ(message(2), "label 1.5, expected a whole number");
  EXPECT_EQ(message(3), "label 10, expected 0 to 9");
  EXPECT_EQ(message(4), "image: begins with 47 49 46 38, which is neither JPEG nor PNG");
}

TEST(ImageRecords, AHeaderThatPromisesTheWorldAllocatesNothing) {
  EXPECT_EQ(message_of<Corrupt>([] {
              unpack_image_record(bytes({255, 255, 255, 255}) + std::string(20, '\0'), "f");
            }),
            "f: says 4294967295 labels, which do not fit into its 24 bytes");
}

TEST(ImageRecords, AnIndexOfAnotherFileIsNamed) {
  const TemporaryFolder folder;
  const std::string path = write_records(folder, {"abc"});
  const std::string index = folder.write("b.idx", "0\t0\n1\t96\n");
  EXPECT_EQ(message_of<Corrupt>([&] { read_image_records(path, index); }),
            index + ":2: offset 96, " + path + " has 12 bytes");
  EXPECT_EQ(message_of([&] { read_image_records(path, "", {.part = 2, .parts = 2}); }),
            path + ": record: part 2 of 2");
  EXPECT_EQ(message_of([] { pack_image_record({}); }), "record: an image needs a label");
}

}  // namespace
}  // namespace lockstep::data
