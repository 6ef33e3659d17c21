// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/mxnet_params.h"

#include <filesystem>

#include "tests/io/tensor_cases.h"

namespace lockstep::io {
namespace {

using testing::bytes_of;
using testing::i32;
using testing::message_of;
using testing::u32;
using testing::u64;
using Floats = std::vector<float>;

constexpr std::uint32_t kV1 = 0xF993fac8, kV2 = 0xF993fac9, kV3 = 0xF993faca;

std::string shape(std::initializer_list<std::int64_t> extents) {
  return i32(static_cast<std::int32_t>(extents.size())) + bytes_of(extents);
}
const std::string kDevice = i32(2) + i32(3);  // gpu(3), which does not matter

std::string name(const std::string& text) { return u64(text.size()) + text; }

std::string list(const std::vector<std::string>& arrays, const std::vector<std::string>& names) {
  std::string bytes = u64(0x112) + u64(0) + u64(arrays.size());
  for (const std::string& array : arrays) bytes += array;
  bytes += u64(names.size());
  for (const std::string& text : names) bytes += name(text);
  return bytes;
}

std::string dense(std::uint32_t version = kV2) {
  return u32(version) + i32(0) + shape({2, 2}) + kDevice + i32(0) + bytes_of<float>({1, 2, 3, 4});
}
std::string rows(std::int64_t row = 2) {
  return u32(kV2) + i32(1) + shape({1, 2}) + shape({3, 2}) + kDevice + i32(0) +  //
         i32(6) + shape({1}) + bytes_of<float>({5, 6}) + bytes_of<std::int64_t>({row});
}
std::string csr(std::initializer_list<std::int64_t> starts = {0, 1, 2},
                std::initializer_list<std::int64_t> columns = {2, 0}) {
  return u32(kV2) + i32(2) + shape({2}) + shape({2, 3}) + kDevice + i32(0) +  //
         i32(6) + shape({static_cast<std::int64_t>(starts.size())}) +         //
         i32(6) + shape({2}) + bytes_of<float>({7, 8}) + bytes_of(starts) + bytes_of(columns);
}

class MxnetParams : public ::testing::Test {
 protected:
  std::vector<NamedTensor> read(const std::string& bytes, const ReadOptions& options = {}) const {
    testing::write_quickly(path_, bytes);
    return read_mxnet_params(path_, options);
  }
  Tensor only(const std::string& array) const { return read(list({array}, {"a"})).at(0).second; }
  std::string complaint(const std::string& bytes, const ReadOptions& options = {}) const {
    return testing::complaint(path_, bytes,
                              [&](const std::string& path) { read_mxnet_params(path, options); });
  }
  std::string complaint_of(const std::string& array) const { return complaint(list({array}, {})); }

  lockstep::testing::TemporaryFolder owner_{"mxnet_params_test"};
  std::string folder_ = owner_.path();
  std::string path_ = folder_ + "/net.params";
};

TEST_F(MxnetParams, GivesBackEveryDtypeAndShapeBitForBit) {
  for (const bool with_empty : {false, true}) {
    const std::vector<NamedTensor> tensors = testing::tensors_of_every_kind(with_empty);
    write_mxnet_params(path_, tensors);
    const std::vector<NamedTensor> again = read_mxnet_params(path_);
    testing::expect_same_bits(again, tensors);
    EXPECT_EQ(again.front().first, tensors.front().first);
  }
}

TEST_F(MxnetParams, IsWrittenByteForByteAsMxnet1Reads) {
  write_mxnet_params(path_, {{"arg:w", Tensor::from<float>({1, 2, 3, 4}, {2, 2})},
                             {"b", Tensor::from<std::int8_t>({-1}, {1})}});
  const std::string cpu = i32(1) + i32(0);
  EXPECT_EQ(read_file(path_), u64(0x112) + u64(0) + u64(2) +  //
                                  u32(kV2) + i32(0) + shape({2, 2}) + cpu + i32(0) +
                                  bytes_of<float>({1, 2, 3, 4}) +  //
                                  u32(kV2) + i32(0) + shape({1}) + cpu + i32(5) + "\xff" + u64(2) +
                                  name("arg:w") + name("b"));
}

TEST_F(MxnetParams, AFileWithAScalarIsWrittenForItsNumPyModeWhole) {
  write_mxnet_params(path_, {{"w", Tensor::from<float>({1}, {1})}, {"s", Tensor::scalar(2)}});
  const std::string cpu = i32(1) + i32(0);
  EXPECT_EQ(read_file(path_),
            u64(0x112) + u64(0) + u64(2) +                                              //
                u32(kV3) + i32(0) + shape({1}) + cpu + i32(0) + bytes_of<float>({1}) +  //
                u32(kV3) + i32(0) + shape({}) + cpu + i32(0) + bytes_of<float>({2}) + u64(2) +
                name("w") + name("s"));
}

TEST_F(MxnetParams, ReadsEveryVersion) {
  const std::string v0 = u32(2) + u32(1) + u32(2) + kDevice + i32(3) + "\x07\x08";
  const std::string v1 = u32(kV1) + shape({2}) + kDevice + i32(4) + i32(-1) + i32(9);
  const std::string v3 = u32(kV3) + i32(0) + shape({}) + kDevice + i32(1) + bytes_of<double>({2.5});
  const auto tensors = read(list({v0, v1, dense(), v3}, {"a", "b", "c", "d"}));
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors[0].second.info(), (TensorInfo{{1, 2}, DType::uint8, {}}));
  EXPECT_EQ(tensors[0].second.to_vector<int>(), (std::vector<int>{7, 8}));
  EXPECT_EQ(tensors[1].second.to_vector<int>(), (std::vector<int>{-1, 9}));
  EXPECT_EQ(tensors[2].first, "c");
  EXPECT_EQ(tensors[2].second.to_vector<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(tensors[3].second.info(), (TensorInfo{{}, DType::float64, {}}));
  EXPECT_EQ(tensors[3].second.item(), 2.5);
}

TEST_F(MxnetParams, ArraysThatMxnetCallsEmptyHaveNoElements) {
  const std::vector<std::string> arrays = {u32(0),
                                           u32(kV1) + shape({}),
                                           u32(kV2) + i32(0) + shape({}),
                                           u32(kV2) + i32(-1) + i32(-1),
                                           u32(kV3) + i32(0) + i32(-1),
                                           u32(kV3) + i32(0) + shape({2, -1})};
  const auto tensors = read(list(arrays, {}));
  ASSERT_EQ(tensors.size(), arrays.size());
  for (const auto& [name, tensor] : tensors)
    EXPECT_EQ(tensor.info(), (TensorInfo{{0}, DType::float32, {}})) << name;
}

TEST_F(MxnetParams, AListHasNumbersForNames) {
  const auto tensors = read(list({dense(), dense()}, {}));
  EXPECT_EQ(tensors[0].first, "0");
  EXPECT_EQ(tensors[1].first, "1");
  EXPECT_TRUE(read(list({}, {})).empty());
}

TEST_F(MxnetParams, SparseArraysBecomeDense) {
  EXPECT_EQ(only(rows()).to_vector<float>(), (Floats{0, 0, 0, 0, 5, 6}));
  EXPECT_EQ(only(csr()).to_vector<float>(), (Floats{0, 0, 7, 8, 0, 0}));
  EXPECT_EQ(only(csr({0, 0, 2})).to_vector<float>(), (Floats{0, 0, 0, 8, 0, 7}));
  const std::string none = u32(kV2) + i32(2) + shape({0}) + shape({2, 2}) + kDevice + i32(0) +
                           i32(6) + shape({0}) + i32(6) + shape({0});
  EXPECT_EQ(only(none).to_vector<float>(), Floats(4, 0.0F));
}

TEST_F(MxnetParams, UnsignedIntegersBecomeWiderOnes) {
  const auto array = [](int type, const std::string& data) {
    return u32(kV2) + i32(0) + shape({1}) + kDevice + i32(type) + data;
  };
  EXPECT_EQ(only(array(9, "\xff\xff")).info().str(), "int32[1]");
  EXPECT_EQ(only(array(9, "\xff\xff")).item(), 65535);
  EXPECT_EQ(only(array(10, u32(0xffffffff))).to_vector<std::int64_t>()[0], 0xffffffff);
  EXPECT_EQ(only(array(11, u64(7))).info().str(), "int64[1]");
  EXPECT_EQ(complaint_of(array(11, u64(std::uint64_t{1} << 63))),
            ": tensor 0 has the number 9223372036854775808, which int64 does not hold");
}

TEST_F(MxnetParams, IsCorruptWhereverItIsCut) {
  const std::string whole = list({dense(), rows(), csr()}, {"w", "r", "c"});
  EXPECT_EQ(complaint(whole), "nothing was thrown");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    testing::write_quickly(path_, whole.substr(0, size));
    ASSERT_THROW(read_mxnet_params(path_), Corrupt) << size;
  }
  EXPECT_EQ(complaint(whole.substr(0, 20)), ": is no .params file of MXNet");
  EXPECT_EQ(complaint(whole.substr(0, 60)), ": ends early");
  EXPECT_EQ(complaint(whole.substr(0, 79)), ": tensor 0 of shape [2, 2] is larger than the file");
  EXPECT_EQ(complaint(whole + "x"), ": has 1 bytes after its end");
}

TEST_F(MxnetParams, NoBytesMakeItCrash) {
  const std::string whole = list({dense(), rows(), csr()}, {"w", "r", "c"});
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int bit : {0, 3, 7}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      try {
        read(bytes, {.max_inflated = 1 << 20});
      } catch (const Error&) {
      }
    }
}

TEST_F(MxnetParams, SizesThatLieAreRefusedBeforeAnythingIsAllocated) {
  const auto head = u64(0x112) + u64(0);
  EXPECT_EQ(complaint(head + u64(~std::uint64_t{0})),
            ": says it has 18446744073709551615 arrays, but only 0 bytes are left");
  EXPECT_EQ(complaint(head + u64(0) + u64(std::uint64_t{1} << 40)),
            ": says it has 1099511627776 names, but only 0 bytes are left");
  EXPECT_EQ(complaint(head + u64(0) + u64(1) + u64(5)), ": has 0 arrays and 1 names");
  EXPECT_EQ(complaint(head + u64(1) + dense() + u64(1) + u64(std::uint64_t{1} << 50)),
            ": says it has 1125899906842624 bytes of a name, but only 0 bytes are left");
  const auto of_shape = [&](std::initializer_list<std::int64_t> extents) {
    return complaint_of(u32(kV2) + i32(0) + shape(extents) + kDevice + i32(1));
  };
  EXPECT_EQ(of_shape({std::int64_t{1} << 40}),
            ": tensor 0 of shape [1099511627776] is larger than the file");
  EXPECT_EQ(of_shape({std::int64_t{1} << 62, std::int64_t{1} << 62, 0}),
            ": tensor 0 of shape [4611686018427387904, 4611686018427387904, 0] is larger than the "
            "file");
  EXPECT_EQ(of_shape({2, -3}), ": tensor 0 has an extent of -3");
  EXPECT_EQ(of_shape({1, 1, 1, 1, 1, 1, 1, 1, 1}), ": tensor 0 has 9 axes, expected 8 at most");
  EXPECT_EQ(complaint_of(u32(kV2) + i32(0) + i32(1 << 30)), ": tensor 0 has 1073741824 axes");
}

TEST_F(MxnetParams, SaysWhatIsWrongWithAnArray) {
  EXPECT_EQ(complaint_of(u32(0xF993facb)), ": tensor 0 is of an unknown version (0xf993facb)");
  EXPECT_EQ(complaint_of(u32(kV2) + i32(3)),
            ": tensor 0 has the storage type 3, expected 0 (dense), 1 (row_sparse) or 2 (csr)");
  EXPECT_EQ(complaint_of(u32(kV2) + i32(0) + shape({1}) + kDevice + i32(13)),
            ": tensor 0 has the type 13, expected 0 to 12");
  EXPECT_EQ(complaint_of(u32(kV2) + i32(0) + shape({1}) + kDevice + i32(7) + "\2"),
            ": tensor 0 has a bool that is neither 0 nor 1");
  EXPECT_EQ(complaint(list({dense(), dense()}, {"w", "w"})), ": two tensors are named 'w'");
  EXPECT_EQ(complaint("PK\3\4 and thirty more bytes of anything"), ": is no .params file of MXNet");
}

TEST_F(MxnetParams, SparseIndicesMustBeInside) {
  EXPECT_EQ(complaint_of(rows(3)), ": tensor 0 has the row 3, expected 0 to 2");
  EXPECT_EQ(complaint_of(rows(-1)), ": tensor 0 has the row -1, expected 0 to 2");
  EXPECT_EQ(complaint_of(csr({0, 1, 2}, {2, 3})), ": tensor 0 has the column 3, expected 0 to 2");
  EXPECT_EQ(complaint_of(csr({0, 2, 1})), ": tensor 0 has row starts that do not rise from 0 to 2");
  EXPECT_EQ(complaint_of(csr({0, 1, 3})), ": tensor 0 has row starts that do not rise from 0 to 2");
  EXPECT_EQ(complaint_of(csr({0, 2})),
            ": tensor 0 of shape [2, 3] has 2 row starts and 2 columns for 2 values");
}

TEST_F(MxnetParams, AFewBytesDoNotStandForAnyAmountOfMemory) {
  const auto large = [](std::int64_t count) {
    return u32(kV2) + i32(1) + shape({0, 2}) + shape({count, 2}) + kDevice + i32(0) + i32(6) +
           shape({0});
  };
  EXPECT_EQ(complaint_of(large(std::int64_t{1} << 40)),
            ": tensor 0 of shape [1099511627776, 2] is sparse, and too large as a dense tensor "
            "(max_inflated)");
  // Each would be allowed, not all of them.
  const std::string two = list({large(1000), large(1000)}, {});
  EXPECT_EQ(complaint(two, {.max_inflated = 16'000}), "nothing was thrown");
  EXPECT_TRUE(complaint(two, {.max_inflated = 15'999}).starts_with(": tensor 1 of shape"));
}

TEST_F(MxnetParams, NamesMustDifferAndAWriteThatFailsLeavesTheOldFile) {
  testing::write_quickly(path_, "old");
  const Tensor x = Tensor::zeros({1 << 16});
  EXPECT_EQ(message_of([&] {
              write_mxnet_params(path_, {{"w", x}, {"w", x}});
            }),
            path_ + ": two tensors are named 'w'");
  {
    const lockstep::testing::FileSizeLimit limit(1000);
    EXPECT_EQ(message_of<IoError>([&] {
                write_mxnet_params(path_, {{"w", x}});
              }),
              path_ + ": cannot write: File too large");
  }
  EXPECT_EQ(read_file(path_), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(MxnetParams, AMissingFileIsNotFoundAndAFolderIsNoFile) {
  EXPECT_EQ(message_of<NotFound>([&] { read_mxnet_params(path_); }), path_ + ": no such file");
  EXPECT_EQ(message_of<IoError>([&] { read_mxnet_params(folder_); }), folder_ + ": is no file");
}

}  // namespace
}  // namespace lockstep::io
