// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/npz.h"

#include <zlib.h>

#include "lockstep/io/npy.h"
#include "tests/io/tensor_cases.h"

namespace lockstep::io {
namespace {

using testing::bytes_of;
using testing::message_of;
using testing::u32;
using testing::u64;

std::string u16(std::uint16_t value) { return bytes_of({value}); }

std::uint32_t checksum(const std::string& bytes) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

std::string deflated(const std::string& bytes) {
  std::string packed(compressBound(bytes.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// A zip file of one entry, byte by byte; its parts may lie.
struct Zip {
  std::string name = "w.npy", contents;
  std::uint16_t method = 0, flags = 0;
  std::uint32_t crc = 0, packed = 0, size = 0, place = 0;
  std::string extra = {};

  static Zip of(const std::string& contents, std::uint16_t method = 0) {
    Zip zip;
    zip.contents = method == 8 ? deflated(contents) : contents;
    zip.method = method;
    zip.crc = checksum(contents);
    zip.size = static_cast<std::uint32_t>(contents.size());
    zip.packed = static_cast<std::uint32_t>(zip.contents.size());
    return zip;
  }

  std::string local() const {
    return "PK\3\4" + u16(20) + u16(flags) + u16(method) + u16(0) + u16(0x21) + u32(crc) +
           u32(packed) + u32(size) + u16(static_cast<std::uint16_t>(name.size())) + u16(0) + name +
           contents;
  }
  std::string entry() const {
    return "PK\1\2" + u16(20) + u16(20) + u16(flags) + u16(method) + u16(0) + u16(0x21) + u32(crc) +
           u32(packed) + u32(size) + u16(static_cast<std::uint16_t>(name.size())) +
           u16(static_cast<std::uint16_t>(extra.size())) + std::string(10, '\0') + u32(place) +
           name + extra;
  }
  static std::string end(const std::string& list, std::size_t offset, std::uint16_t count = 1) {
    return "PK\5\6" + u32(0) + u16(count) + u16(count) +
           u32(static_cast<std::uint32_t>(list.size())) + u32(static_cast<std::uint32_t>(offset)) +
           u16(0);
  }
  std::string bytes() const { return local() + entry() + end(entry(), local().size()); }
};

class Npz : public ::testing::Test {
 protected:
  std::vector<NamedTensor> read(const std::string& bytes, const ReadOptions& options = {}) const {
    testing::write_quickly(path_, bytes);
    return read_npz(path_, options);
  }
  std::string complaint(const std::string& bytes, const ReadOptions& options = {}) const {
    return testing::complaint(path_, bytes,
                              [&](const std::string& path) { read_npz(path, options); });
  }
  std::string npy(const Tensor& tensor) const {
    save_npy(path_ + ".npy", tensor);
    return read_file(path_ + ".npy");
  }

  lockstep::testing::TemporaryFolder owner_{"npz_test"};
  std::string path_ = owner_.path() + "/net.npz";
  Tensor x_ = Tensor::from<float>({1, 2, 3}, {3});
};

TEST_F(Npz, GivesBackEveryDtypeAndShapeBitForBit) {
  const std::vector<NamedTensor> tensors = testing::tensors_of_every_kind();
  write_npz(path_, tensors);
  testing::expect_same_bits(read_npz(path_), tensors);
  EXPECT_EQ(read_npz(path_)[0].first, tensors[0].first);
}

TEST_F(Npz, IsWrittenByteForByte) {
  write_npz(path_, {{"w", x_}});
  Zip zip = Zip::of(npy(x_));
  zip.flags = 0x800;
  EXPECT_EQ(read_file(path_), zip.bytes());
  write_npz(path_, {});
  EXPECT_EQ(read_file(path_), Zip::end("", 0, 0));
  EXPECT_TRUE(read_npz(path_).empty());
}

TEST_F(Npz, ReadsStoredAndDeflatedEntries) {
  for (const std::uint16_t method : {0, 8}) {
    const auto tensors = read(Zip::of(npy(x_), method).bytes());
    ASSERT_EQ(tensors.size(), 1u);
    EXPECT_EQ(tensors[0].first, "w");
    testing::expect_same_bits(tensors[0].second, x_, "w");
  }
}

TEST_F(Npz, ReadsSizesThatStandInTheWideField) {
  Zip zip = Zip::of(npy(x_), 8);
  zip.extra = u16(0x7777) + u16(2) + "ab" + u16(1) + u16(16) + u64(zip.size) + u64(zip.packed);
  zip.size = zip.packed = 0xffffffff;
  testing::expect_same_bits(read(zip.bytes())[0].second, x_, "w");
  const std::string local = zip.local(), entry = zip.entry();
  const std::string wide = "PK\6\6" + u64(44) + u16(45) + u16(45) + u64(0) + u64(1) + u64(1) +
                           u64(entry.size()) + u64(local.size()) + "PK\6\7" + u32(0) +
                           u64(local.size() + entry.size()) + u32(1);
  const std::string end = "PK\5\6" + u32(0) + u16(0xffff) + u16(0xffff) + u32(0xffffffff) +
                          u32(0xffffffff) + u16(2) + "hi";
  testing::expect_same_bits(read(local + entry + wide + end)[0].second, x_, "w");
}

TEST_F(Npz, ReadsEntriesBeyondFourGigabytes) {
  constexpr std::uint64_t kFar = std::uint64_t{5} << 30;  // after a hole, which takes no disk
  Zip zip = Zip::of(npy(x_));
  zip.place = 0xffffffff;
  zip.extra = u16(1) + u16(8) + u64(kFar);
  const std::string local = zip.local(), entry = zip.entry();
  const std::string wide = "PK\6\6" + u64(44) + u16(45) + u16(45) + u64(0) + u64(1) + u64(1) +
                           u64(entry.size()) + u64(kFar + local.size()) + "PK\6\7" + u32(0) +
                           u64(kFar + local.size() + entry.size()) + u32(1);
  std::ofstream(path_, std::ios::binary).seekp(kFar)
      << local << entry << wide << Zip::end(entry, 0xffffffff);
  testing::expect_same_bits(read_npz(path_).at(0).second, x_, "w");
}

TEST_F(Npz, MoreEntriesThanTheNarrowListCountsAreWrittenAndRead) {
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < 0xffff + 5; ++i) tensors.emplace_back(std::to_string(i), x_);
  write_npz(path_, tensors);
  const std::string bytes = read_file(path_);
  EXPECT_EQ(bytes.substr(bytes.size() - 22 - 20, 4), "PK\6\7");
  const std::vector<NamedTensor> again = read_npz(path_);
  ASSERT_EQ(again.size(), tensors.size());
  EXPECT_EQ(again.back().first, tensors.back().first);
  testing::expect_same_bits(again.back().second, x_, "last");
}

TEST_F(Npz, FortranOrderAndUnsignedIntegersAreRead) {
  std::string header = "{'descr': '<u2', 'fortran_order': True, 'shape': (2, 3), }";
  header.resize(118, ' ');
  const std::string data = u16(1) + u16(4) + u16(2) + u16(5) + u16(3) + u16(65535);
  const auto tensors =
      read(Zip::of("\x93NUMPY\1" + std::string(1, '\0') + u16(118) + header + data).bytes());
  EXPECT_EQ(tensors[0].second.info().str(), "int32[2, 3]");
  EXPECT_EQ(tensors[0].second.to_vector<int>(), (std::vector<int>{1, 2, 3, 4, 5, 65535}));
}

TEST_F(Npz, IsCorruptWhereverItIsCutAndWhicheverByteChanges) {
  for (const std::uint16_t method : {0, 8}) {
    const std::string whole = Zip::of(npy(x_), method).bytes();
    for (std::size_t size = 0; size < whole.size(); ++size) {
      testing::write_quickly(path_, whole.substr(0, size));
      ASSERT_THROW(read_npz(path_), Corrupt) << size;
    }
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
      try {
        // What the list repeats, and nobody reads, may change.
        testing::expect_same_bits(read(bytes)[0].second, x_, std::to_string(at));
      } catch (const Error&) {
      }
    }
  }
}

TEST_F(Npz, SaysWhatIsWrong) {
  const std::string contents = npy(x_);
  EXPECT_EQ(complaint("hello"), ": is no zip file, or ends early: its list of entries is missing");
  Zip zip = Zip::of(contents);
  zip.crc ^= 1;
  EXPECT_EQ(complaint(zip.bytes()), ": entry 'w.npy': its checksum does not fit its contents");
  zip = Zip::of(contents);
  zip.method = 12;
  EXPECT_EQ(complaint(zip.bytes()),
            ": entry 'w.npy' is compressed by method 12, expected 0 (stored) or 8 (deflate)");
  zip = Zip::of(contents);
  zip.flags = 1;
  EXPECT_EQ(complaint(zip.bytes()), ": entry 'w.npy' is encrypted");
  zip = Zip::of(contents);
  zip.place = 7;
  EXPECT_EQ(complaint(zip.bytes()), ": entry 'w.npy' is not where it should be");
  zip = Zip::of("text");
  EXPECT_EQ(complaint(zip.bytes()), ": entry 'w.npy': is not a .npy file, or ends early");
  zip.name = "notes.txt";
  EXPECT_EQ(complaint(zip.bytes()), ": has the entry 'notes.txt', expected .npy arrays alone");
  zip.name = "archive/data.pkl";
  EXPECT_EQ(complaint(zip.bytes()),
            ": is a file of torch.save: write safetensors instead "
            "(safetensors.torch.save_file)");
}

TEST_F(Npz, SizesThatLieAreRefusedBeforeAnythingIsAllocated) {
  const std::string contents = npy(x_);
  Zip zip = Zip::of(contents);
  zip.size = zip.packed = 0xfffffff0;
  EXPECT_EQ(complaint(zip.bytes()), ": entry 'w.npy' says it has 4294967280 bytes");
  zip = Zip::of(contents, 8);
  zip.size = 0xfffffff0;
  EXPECT_TRUE(complaint(zip.bytes()).ends_with("bytes inflate to 4294967280"));
  zip.size = static_cast<std::uint32_t>(contents.size()) + 1;
  EXPECT_EQ(complaint(zip.bytes()),
            fmt::format(": entry 'w.npy' is damaged: it does not inflate to {} bytes", zip.size));
  zip.size -= 2;
  EXPECT_EQ(complaint(zip.bytes()),
            fmt::format(": entry 'w.npy' is damaged: it does not inflate to {} bytes", zip.size));
  zip = Zip::of(contents);
  EXPECT_EQ(complaint(zip.local() + zip.entry() + Zip::end(zip.entry(), zip.local().size(), 900)),
            ": its list of 900 entries is not inside the file");
  EXPECT_EQ(complaint(zip.local() + zip.entry() + Zip::end(zip.entry(), 1 << 30)),
            ": its list of 1 entries is not inside the file");
}

TEST_F(Npz, AFewBytesDoNotStandForAnyAmountOfMemory) {
  const std::string zeros = npy(Tensor::zeros({1 << 18}));
  const std::string bytes = Zip::of(zeros, 8).bytes();
  EXPECT_LT(bytes.size(), zeros.size() / 100);
  EXPECT_EQ(complaint(bytes, {.max_inflated = static_cast<std::int64_t>(zeros.size())}),
            "nothing was thrown");
  EXPECT_EQ(complaint(bytes, {.max_inflated = static_cast<std::int64_t>(zeros.size()) - 1}),
            fmt::format(": entry 'w.npy' inflates to {} bytes, more than are left of max_inflated",
                        zeros.size()));
  // Entries that all are the same bytes of the file.
  const std::string contents = npy(Tensor::zeros({512}));
  Zip zip = Zip::of(contents);
  std::string list;
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    Zip other = zip;
    other.name = std::string(1, letter) + ".npy";
    list += other.entry();
  }
  EXPECT_EQ(complaint(zip.local() + list + Zip::end(list, zip.local().size(), 4)),
            fmt::format(": entry 'b.npy' says it has {} bytes", contents.size()));
}

TEST_F(Npz, NamesMustDifferAndFit) {
  EXPECT_EQ(message_of([&] {
              write_npz(path_, {{"w", x_}, {"w", x_}});
            }),
            path_ + ": two tensors are named 'w'");
  EXPECT_EQ(message_of([&] {
              write_npz(path_, {{std::string(65532, 'n'), x_}});
            }),
            path_ + ": a name of 65532 bytes does not fit into a .npz file");
  const Zip zip = Zip::of(npy(x_));
  const std::string list = zip.entry() + zip.entry();
  EXPECT_EQ(complaint(zip.local() + list + Zip::end(list, zip.local().size(), 2)),
            ": two entries are named 'w.npy'");
}

}  // namespace
}  // namespace lockstep::io
