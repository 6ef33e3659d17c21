// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/archive.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "lockstep/base/file.h"
#include "lockstep/base/sha256.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep::io {
namespace {

namespace fs = std::filesystem;
using testing::FileSizeLimit;
using testing::message_of;

class ArchiveFile : public ::testing::Test {
 protected:
  std::string file() const { return read_file(path_); }
  // What reading says of these bytes, without the file's name; nothing when it takes them.
  std::string message(const std::string& bytes) const {
    write_file(path_, bytes);
    const std::string text = message_of<Corrupt>([&] { read_archive(path_); });
    return text.starts_with(path_) ? text.substr(path_.size()) : "";
  }
  // A file of these parts whose checksum is right.
  static std::string file_of(const std::string& header, const std::string& data) {
    std::string bytes("LOCKSTEP\1\0\0\0\0\0\0\0", 16);
    const std::uint64_t size = header.size();
    bytes.append(reinterpret_cast<const char*>(&size), 8);
    bytes += header;
    bytes.resize((bytes.size() + 63) / 64 * 64);
    bytes += data;
    return bytes + sha256_hex(bytes);
  }
  static std::string file_with(const std::string& entry, const std::string& data) {
    return file_of(R"({"metadata":"","tensors":[)" + entry + "]}", data);
  }

  testing::TemporaryFolder owner_{"archive_test"};
  std::string folder_ = owner_.path();
  std::string path_ = folder_ + "/a.ckpt";
};

Archive small_archive() {
  return {.metadata = R"({"step": 7})",
          .tensors = {{"weight", Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3})},
                      {"flag", Tensor::full({3}, 1.0, DType::boolean)}}};
}

TEST_F(ArchiveFile, KeepsEveryDtypeAndShapeAndTheMetadata) {
  Archive archive{.metadata = "{\"note\": \"\u00e9\\n\"}", .tensors = {}};
  for (int i = 0; i < kDTypeCount; ++i)
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3}, Shape{2, 3}, Shape{5, 0, 4}})
      archive.tensors.emplace_back(fmt::format("{}.{}", i, shape.str()),
                                   Tensor::full(shape, 1.0, static_cast<DType>(i)));
  write_archive(path_, archive);
  const Archive again = read_archive(path_);
  EXPECT_EQ(again.metadata, archive.metadata);
  ASSERT_EQ(again.tensors.size(), archive.tensors.size());
  for (std::size_t i = 0; i < again.tensors.size(); ++i) {
    EXPECT_EQ(again.tensors[i].first, archive.tensors[i].first);
    EXPECT_EQ(again.tensors[i].second.info(), archive.tensors[i].second.info());
    EXPECT_EQ(again.tensors[i].second.to_vector<double>(),
              archive.tensors[i].second.to_vector<double>());
  }
}

TEST_F(ArchiveFile, ADenseCopyOfAViewIsWritten) {
  const Tensor whole = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  write_archive(path_, {.metadata = "", .tensors = {{"t", whole.window({3, 2}, {1, 3}, 0)}}});
  EXPECT_EQ(read_archive(path_).tensors[0].second.to_vector<int>(),
            (std::vector<int>{1, 4, 2, 5, 3, 6}));
}

TEST_F(ArchiveFile, DataIsAlignedAndTheTrailerIsTheSumOfTheRest) {
  write_archive(path_, small_archive());
  const std::string bytes = file();
  EXPECT_EQ(bytes.size() % 64, 0U);
  EXPECT_EQ(bytes.substr(bytes.size() - 64), sha256_hex(bytes.substr(0, bytes.size() - 64)));
  const float first = 1.0F;
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&first), 4));
  EXPECT_EQ(at % 64, 0U);
}

TEST_F(ArchiveFile, ATensorLargerThanABlockComesBack) {
  std::vector<std::int32_t> values((3 << 20) / 4 + 5);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i * 7);
  const Shape shape{static_cast<std::int64_t>(values.size())};
  write_archive(path_, {.metadata = "", .tensors = {{"t", Tensor::from(values, shape)}}});
  EXPECT_EQ(read_archive(path_).tensors[0].second.to_vector<std::int32_t>(), values);
}

TEST_F(ArchiveFile, IsCorruptWhereverItIsCut) {
  write_archive(path_, small_archive());
  const std::string whole = file();
  for (std::size_t size = 0; size < whole.size(); ++size)
    ASSERT_NE(message(whole.substr(0, size)), "") << size;
  EXPECT_EQ(message(""), ": is no Lockstep archive: 0 bytes");
  EXPECT_EQ(message(whole.substr(0, 100)),
            ": has a header of 156 bytes, but only 76 bytes are left");
  EXPECT_EQ(message(whole.substr(0, 192)),
            ": tensor 'weight' of shape [2, 3] is larger than the file");
  EXPECT_EQ(message(whole.substr(0, 256)), ": ends early");
  EXPECT_EQ(message(whole.substr(0, 383)), ": has 191 bytes after its header, expected 192");
  EXPECT_EQ(message(whole + "x"), ": has 193 bytes after its header, expected 192");
}

TEST_F(ArchiveFile, IsCorruptWhicheverBitFlips) {
  write_archive(path_, small_archive());
  const std::string whole = file();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    ASSERT_NE(message(bytes), "") << at;
  }
  std::string bytes = whole;
  bytes[256] ^= 1;
  EXPECT_EQ(message(bytes), ": its checksum does not fit its contents");
}

TEST_F(ArchiveFile, SaysWhatIsWrongWithThePrefix) {
  write_archive(path_, small_archive());
  std::string bytes = file();
  bytes[8] = 9;
  EXPECT_EQ(message(bytes), ": has version 9, this build reads 1");
  EXPECT_EQ(message("PK" + bytes.substr(2)), ": is no Lockstep archive");
  bytes[8] = 1;
  std::memset(bytes.data() + 16, 0xff, 8);
  EXPECT_EQ(message(bytes),
            ": has a header of 18446744073709551615 bytes, but only 360 bytes are left");
}

TEST_F(ArchiveFile, AHeaderThatLiesIsRefusedBeforeAnythingIsAllocated) {
  const std::string row(64, '\0');
  EXPECT_EQ(message(file_of("{\"tensors\":", "")), ": its header is malformed");
  EXPECT_EQ(message(file_of("[]", "")), ": its header is malformed");
  EXPECT_EQ(
      message(file_with(R"({"name":"w","dtype":"float32","shape":[99999999999],"offset":0})", row)),
      ": tensor 'w' of shape [99999999999] is larger than the file");
  EXPECT_EQ(
      message(file_with(
          R"({"name":"w","dtype":"float64","shape":[4294967296,4294967296],"offset":0})", row)),
      ": tensor 'w' of shape [4294967296, 4294967296] is larger than the file");
  EXPECT_EQ(message(file_with(R"({"name":"w","dtype":"float32","shape":[-1],"offset":0})", row)),
            ": tensor 'w' has an extent of -1");
  EXPECT_EQ(message(file_with(
                R"({"name":"w","dtype":"int8","shape":[1,1,1,1,1,1,1,1,1],"offset":0})", row)),
            ": tensor 'w' has 9 axes");
  EXPECT_EQ(message(file_with(R"({"name":"w","dtype":"int8","shape":[1],"offset":64})", row)),
            ": tensor 'w' is not where the one before it ends");
  EXPECT_EQ(
      message(file_with(R"({"name":"w","dtype":"int9","shape":[1],"offset":0})", row)),
      ": tensor 'w': dtype: 'int9' is not a dtype (float32, float64, float16, bfloat16, int8, "
      "uint8, int16, int32, int64, bool)");
  EXPECT_EQ(message(file_with(R"({"name":"w","dtype":"int8","shape":[0],"offset":0},
                                 {"name":"w","dtype":"int8","shape":[0],"offset":0})",
                              "")),
            ": two tensors are named 'w'");
  EXPECT_EQ(message(file_with(R"({"name":"w","dtype":"bool","shape":[2],"offset":0})",
                              "\1\2" + row.substr(2))),
            ": tensor 'w' has a bool that is neither 0 nor 1");
}

TEST_F(ArchiveFile, AMissingFileIsNotFoundAndAFolderIsNoFile) {
  EXPECT_EQ(message_of<NotFound>([&] { read_archive(path_); }), path_ + ": no such file");
  EXPECT_EQ(message_of<IoError>([&] { read_archive(folder_); }), folder_ + ": is no file");
}

TEST_F(ArchiveFile, NamesMustDifferAndTextMustBeUtf8) {
  Archive archive = small_archive();
  archive.tensors[1].first = "weight";
  EXPECT_EQ(message_of([&] { write_archive(path_, archive); }),
            path_ + ": two tensors are named 'weight'");
  EXPECT_EQ(message_of([&] { write_archive(path_, {.metadata = "\xff", .tensors = {}}); }),
            path_ + ": a name or the metadata is not UTF-8");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(ArchiveFile, AWriteThatFailsLeavesTheOldFileAndNothingElse) {
  write_archive(path_, small_archive());
  const std::string old = file();
  const Archive large{.metadata = "", .tensors = {{"t", Tensor::zeros({1 << 20})}}};
  for (const rlim_t bytes : {0, 10, 100, 4096, 1 << 20, 4 << 20}) {
    const FileSizeLimit limit(bytes);
    EXPECT_EQ(message_of<IoError>([&] { write_archive(path_, large); }),
              path_ + ": cannot write: File too large");
  }
  EXPECT_EQ(file(), old);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(ArchiveFile, AFolderThatCannotBeWrittenIsAnIoError) {
  EXPECT_EQ(message_of<NotFound>([&] { write_archive(folder_ + "/no/a", {}); }),
            folder_ + "/no/a: cannot create: no such file or folder");
  write_file(path_, "");
  EXPECT_EQ(message_of<IoError>([&] { write_archive(path_ + "/a", {}); }),
            path_ + "/a: cannot create: Not a directory");
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_exec);
  const uid_t user = ::geteuid();
  ASSERT_EQ(::seteuid(user == 0 ? 65534 : user), 0);  // root may write everywhere
  const std::string denied = message_of<IoError>([&] { write_archive(path_, {}); });
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_EQ(denied, path_ + ": cannot create: Permission denied");
  fs::permissions(folder_, fs::perms::owner_all);
}

TEST(TensorsSha256, IsOfTheContentsInTheOrderOfTheNames) {
  const Tensor a = Tensor::from<std::int32_t>({1, 2}, {2});
  const Tensor b = Tensor::from<std::int32_t>({3, 4}, {1, 2});
  const std::int32_t all[] = {1, 2, 3, 4};
  const std::string expected =
      sha256_hex(std::string_view(reinterpret_cast<const char*>(all), sizeof all));
  EXPECT_EQ(tensors_sha256({{"a", a}, {"b", b}}), expected);
  EXPECT_EQ(tensors_sha256({{"b", b}, {"a", a}}), expected);
  EXPECT_NE(tensors_sha256({{"a", b}, {"b", a}}), expected);
}

}  // namespace
}  // namespace lockstep::io
