// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/safetensors.h"

#include "tests/io/tensor_cases.h"

namespace lockstep::io {
namespace {

using testing::bytes_of;
using testing::message_of;
using testing::u64;

std::string file_of(const std::string& header, const std::string& data = "") {
  return u64(header.size()) + header + data;
}

class SafetensorsFile : public ::testing::Test {
 protected:
  std::string complaint(const std::string& bytes) const {
    return testing::complaint(path_, bytes,
                              [](const std::string& path) { read_safetensors(path); });
  }
  // Of one tensor 'w' with these facts.
  std::string complaint_of(const std::string& facts, const std::string& data) const {
    return complaint(file_of(R"({"w":{)" + facts + "}}", data));
  }

  lockstep::testing::TemporaryFolder owner_{"safetensors_test"};
  std::string path_ = owner_.path() + "/net.safetensors";
};

TEST_F(SafetensorsFile, GivesBackEveryDtypeAndShapeBitForBitAndTheMetadata) {
  const Safetensors contents{testing::tensors_of_every_kind(),
                             {{"format", "pt"}, {"\u00e9", "\n"}}};
  write_safetensors(path_, contents);
  const Safetensors again = read_safetensors(path_);
  testing::expect_same_bits(again.tensors, contents.tensors);
  EXPECT_EQ(again.metadata, contents.metadata);
}

TEST_F(SafetensorsFile, IsWrittenByteForByteAsTheLibraryReads) {
  write_safetensors(path_, {{{"flag", Tensor::full({1}, 1, DType::boolean)},
                             {"w", Tensor::from<float>({1, 2}, {2, 1})}},
                            {}});
  const std::string header = R"({"flag":{"data_offsets":[8,9],"dtype":"BOOL","shape":[1]},)"
                             R"("w":{"data_offsets":[0,8],"dtype":"F32","shape":[2,1]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(path_), file_of(header + padding, bytes_of<float>({1, 2}) + "\1"));
}

TEST_F(SafetensorsFile, EveryTensorBeginsAtAMultipleOfItsElements) {
  write_safetensors(path_, {testing::tensors_of_every_kind(), {}});
  const std::string bytes = read_file(path_);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  EXPECT_EQ(header % 8, 0u);
  // Data is in the order of the elements' sizes, so that sizes of the tensors keep the rest
  // aligned.
  const Safetensors again = read_safetensors(path_);
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : again.tensors) {
    EXPECT_EQ(offset % item_size(tensor.dtype()), 0u) << name;
    offset += tensor.info().bytes();
  }
}

TEST_F(SafetensorsFile, ReadsWhatOthersWrite) {
  testing::write_quickly(path_,
                         file_of(R"({"__metadata__":{"format":"pt"},)"
                                 R"("b":{"dtype":"U16","shape":[1],"data_offsets":[4,6]},)"
                                 R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
                                 bytes_of<float>({2.5F}) + "\xff\xff"));
  const Safetensors contents = read_safetensors(path_);
  ASSERT_EQ(contents.tensors.size(), 2u);
  EXPECT_EQ(contents.tensors[0].first, "a");
  EXPECT_EQ(contents.tensors[0].second.item(), 2.5);
  EXPECT_EQ(contents.tensors[1].second.info().str(), "int32[1]");
  EXPECT_EQ(contents.tensors[1].second.item(), 65535);
  EXPECT_EQ(contents.metadata.at("format"), "pt");
  testing::write_quickly(path_, file_of("{}"));
  EXPECT_TRUE(read_safetensors(path_).tensors.empty());
}

TEST_F(SafetensorsFile, IsCorruptWhereverItIsCut) {
  write_safetensors(path_, {testing::tensors_of_every_kind(), {{"a", "b"}}});
  const std::string whole = read_file(path_);
  for (std::size_t size = 0; size < whole.size(); size += size < 64 ? 1 : 97) {
    testing::write_quickly(path_, whole.substr(0, size));
    ASSERT_THROW(read_safetensors(path_), Corrupt) << size;
  }
  EXPECT_EQ(complaint(""), ": is no safetensors file: 0 bytes");
  EXPECT_NE(complaint(whole + "x").find("bytes of data, its tensors"), std::string::npos);
}

TEST_F(SafetensorsFile, SizesThatLieAreRefusedBeforeAnythingIsAllocated) {
  EXPECT_EQ(complaint(u64(~std::uint64_t{0}) + "{}"),
            ": is no safetensors file, or ends early: it has 10 bytes, its header "
            "18446744073709551615");
  EXPECT_EQ(complaint_of(R"("dtype":"F32","shape":[1099511627776],"data_offsets":[0,4])", "1234"),
            ": tensor 'w' of shape [1099511627776] is larger than the file");
  EXPECT_EQ(complaint_of(R"("dtype":"F32","shape":[4294967296,4294967296,4294967296],)"
                         R"("data_offsets":[0,0])",
                         ""),
            ": tensor 'w' of shape [4294967296, 4294967296, 4294967296] is larger than the file");
  EXPECT_EQ(complaint_of(R"("dtype":"F32","shape":[1],"data_offsets":[0,400])", "1234"),
            ": tensor 'w' is at 0 to 400 of 4 bytes");
  EXPECT_EQ(complaint_of(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", "1234"),
            ": tensor 'w' of shape [2] is larger than the file");
  EXPECT_EQ(complaint_of(R"("dtype":"F16","shape":[1],"data_offsets":[0,4])", "1234"),
            ": tensor 'w' of shape [1] needs 2 bytes, has 4");
  EXPECT_EQ(complaint_of(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", "1234"),
            ": tensor 'w' has an extent of -1");
  EXPECT_EQ(complaint_of(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])", "1234"),
            ": tensor 'w' has an extent of 1.5");
  EXPECT_EQ(complaint_of(R"("dtype":"F32","shape":[1],"data_offsets":[-4,0])", "1234"),
            ": tensor 'w' has a data offset of -4");
  EXPECT_EQ(complaint_of(R"("dtype":"I8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])", "1"),
            ": tensor 'w' has 9 axes, expected 8 at most");
}

TEST_F(SafetensorsFile, GapsAndOverlapsAreRefused) {
  const auto pair = [](const char* a, const char* b) {
    return fmt::format(R"({{"a":{{"dtype":"I8","shape":[2],"data_offsets":{}}},)"
                       R"("b":{{"dtype":"I8","shape":[2],"data_offsets":{}}}}})",
                       a, b);
  };
  EXPECT_EQ(complaint(file_of(pair("[0,2]", "[2,4]"), "1234")), "nothing was thrown");
  EXPECT_EQ(complaint(file_of(pair("[0,2]", "[1,3]"), "1234")),
            ": tensor 'b' is not where the one before it ends");
  EXPECT_EQ(complaint(file_of(pair("[0,2]", "[3,5]"), "12345")),
            ": tensor 'b' is not where the one before it ends");
  EXPECT_EQ(complaint(file_of(pair("[0,2]", "[2,4]"), "12345")),
            ": has 5 bytes of data, its tensors 4");
}

TEST_F(SafetensorsFile, SaysWhatIsWrongWithTheHeader) {
  EXPECT_EQ(complaint(file_of("{\"w\":")), ": its header is malformed");
  EXPECT_EQ(complaint(file_of("[]")), ": its header is malformed");
  EXPECT_EQ(complaint(file_of(R"({"w":3})")), ": its header is malformed");
  EXPECT_EQ(complaint(file_of(R"({"__metadata__":{"a":3}})")), ": its header is malformed");
  EXPECT_EQ(complaint(file_of(std::string(100'000, '['))), ": its header nests deeper than 3");
  EXPECT_EQ(complaint(file_of(R"({"w":{"dtype":"I8","shape":[0],"data_offsets":[0,0]},)"
                              R"("w":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}})")),
            ": two tensors are named 'w'");
  EXPECT_EQ(complaint_of(R"("dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1])", "1"),
            ": tensor 'w' holds F8_E4M3, which tensors do not have");
  EXPECT_EQ(complaint_of(R"("dtype":"Q5","shape":[1],"data_offsets":[0,1])", "1"),
            ": tensor 'w' holds 'Q5', which is no dtype");
  EXPECT_EQ(complaint_of(R"("dtype":"BOOL","shape":[1],"data_offsets":[0,1])", "\2"),
            ": tensor 'w' has a bool that is neither 0 nor 1");
}

TEST_F(SafetensorsFile, NamesMustDifferAndBeText) {
  const Tensor x = Tensor::zeros({1});
  EXPECT_EQ(message_of([&] {
              write_safetensors(path_, {{{"w", x}, {"w", x}}, {}});
            }),
            path_ + ": two tensors are named 'w'");
  EXPECT_EQ(message_of([&] {
              write_safetensors(path_, {{{"__metadata__", x}}, {}});
            }),
            path_ + ": a tensor is named '__metadata__'");
  EXPECT_EQ(message_of([&] {
              write_safetensors(path_, {{{"\xff", x}}, {}});
            }),
            path_ + ": a name or the metadata is not UTF-8");
  EXPECT_THROW(read_safetensors(path_), NotFound);
}

}  // namespace
}  // namespace lockstep::io
