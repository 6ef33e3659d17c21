// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/archive.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "lockstep/base/file.h"
#include "lockstep/base/sha256.h"

// The file: a Prefix, the header (JSON), then every tensor in the header's order, each padded with
// zeros to the next multiple of 64 bytes as the header is, then 64 hexadecimal digits: the SHA-256
// of all that comes before. Numbers are little-endian. The header:
//   {"metadata": "...", "tensors": [{"name", "dtype", "shape", "offset"}, ...]}
// with offsets that count from the first tensor.
namespace lockstep::io {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "archives are little-endian");

constexpr std::array<char, 8> kMagic{'L', 'O', 'C', 'K', 'S', 'T', 'E', 'P'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kTrailer = 64;
constexpr std::size_t kBlock = std::size_t{1} << 20;  // written, read and summed while in the cache

struct Prefix {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t reserved = 0;
  std::uint64_t header_bytes = 0;
};
static_assert(sizeof(Prefix) == 24);

std::uint64_t padding(std::uint64_t bytes) { return (0 - bytes) % kAlignment; }

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.numel() == 0 ? nullptr : tensor.raw(), tensor.info().bytes()};
}

class Writer {
 public:
  explicit Writer(const std::string& path) : file_(path) {}

  void write(std::span<const std::byte> bytes) {
    length_ += bytes.size();
    while (!bytes.empty()) {
      const auto block = bytes.first(std::min(kBlock, bytes.size()));
      sum_.update(block);
      file_.write(block);
      bytes = bytes.subspan(block.size());
    }
  }

  void align() {
    const std::array<std::byte, kAlignment> zeros{};
    write(std::span(zeros).first(padding(length_)));
  }

  void finish() {
    const std::string digits = sum_.hex();
    file_.write(std::as_bytes(std::span(digits)));
    file_.commit();
  }

 private:
  AtomicFile file_;
  Sha256 sum_;
  std::uint64_t length_ = 0;
};

std::string header_of(const std::string& path, const Archive& archive) {
  json tensors = json::array();
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : archive.tensors) {
    if (!names.insert(name).second)
      throw InvalidArgument("{}: two tensors are named '{}'", path, name);
    tensors.push_back({{"name", name},
                       {"dtype", name_of(tensor.dtype())},
                       {"shape", tensor.shape().vector()},
                       {"offset", offset}});
    offset += tensor.info().bytes() + padding(tensor.info().bytes());
  }
  try {
    return json{{"metadata", archive.metadata}, {"tensors", std::move(tensors)}}.dump();
  } catch (const json::exception&) {
    throw InvalidArgument("{}: a name or the metadata is not UTF-8", path);
  }
}

class Reader {
 public:
  explicit Reader(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0 && errno == ENOENT) throw NotFound("{}: no such file", path_);
    struct stat status {};
    if (fd_ < 0 || ::fstat(fd_, &status) != 0) fail_open();
    if (!S_ISREG(status.st_mode)) {
      ::close(fd_);
      throw IoError("{}: is no file", path_);
    }
    left_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~Reader() { ::close(fd_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Bytes not read yet.
  std::uint64_t left() const { return left_; }

  void read(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const auto block = bytes.first(std::min(kBlock, bytes.size()));
      read_block(block);
      sum_.update(block);
      bytes = bytes.subspan(block.size());
    }
  }

  void skip_padding(std::uint64_t bytes) {
    std::array<std::byte, kAlignment> zeros;
    read(std::span(zeros).first(padding(bytes)));
  }

  void check_sum() {
    std::string digits(kTrailer, '\0');
    read_block(std::as_writable_bytes(std::span(digits)));
    if (sum_.hex() != digits) fail("its checksum does not fit its contents");
  }

  template <class... A>
  [[noreturn]] void fail(fmt::format_string<A...> format, A&&... args) const {
    throw Corrupt("{}: {}", path_, fmt::format(format, std::forward<A>(args)...));
  }

 private:
  [[noreturn]] void fail_open() {
    const int error = errno;
    if (fd_ >= 0) ::close(fd_);
    throw IoError("{}: cannot open: {}", path_, std::strerror(error));
  }

  void read_block(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::read(fd_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw IoError("{}: cannot read: {}", path_, std::strerror(errno));
      if (count == 0) fail("ends early");
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      left_ -= std::min<std::uint64_t>(left_, static_cast<std::uint64_t>(count));
    }
  }

  std::string path_;
  int fd_;
  std::uint64_t left_ = 0;
  Sha256 sum_;
};

struct Entry {
  std::string name;
  TensorInfo info;
  std::uint64_t bytes = 0;
};

// How many bytes the tensor has: checked against `limit` before anything is allocated.
std::uint64_t checked_bytes(const Reader& reader, const Entry& entry, std::uint64_t limit) {
  std::uint64_t bytes = item_size(entry.info.dtype);
  const auto& shape = entry.info.shape;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const std::int64_t extent : shape) {
    if (static_cast<std::uint64_t>(extent) > limit / bytes)
      reader.fail("tensor '{}' of shape {} is larger than the file", entry.name, shape.str());
    bytes *= static_cast<std::uint64_t>(extent);
  }
  return bytes;
}

Shape shape_from(const Reader& reader, const std::string& name, const json& values) {
  const auto extents = values.get<std::vector<std::int64_t>>();
  if (extents.size() > kMaxRank) reader.fail("tensor '{}' has {} axes", name, extents.size());
  for (const std::int64_t extent : extents)
    if (extent < 0) reader.fail("tensor '{}' has an extent of {}", name, extent);
  return Shape(extents);
}

Entry entry_from(const Reader& reader, const json& value, std::uint64_t offset) {
  Entry entry{.name = value.at("name"), .info = {}, .bytes = 0};
  try {
    entry.info.dtype = dtype_from_name(value.at("dtype").get<std::string>());
  } catch (const InvalidArgument& error) {
    reader.fail("tensor '{}': {}", entry.name, error.what());
  }
  entry.info.shape = shape_from(reader, entry.name, value.at("shape"));
  entry.bytes = checked_bytes(reader, entry, reader.left());
  if (value.at("offset").get<std::uint64_t>() != offset)
    reader.fail("tensor '{}' is not where the one before it ends", entry.name);
  return entry;
}

std::vector<Entry> entries_from(const Reader& reader, const json& values) {
  std::vector<Entry> entries;
  std::set<std::string> names;
  std::uint64_t offset = 0;
  for (const json& value : values) {
    entries.push_back(entry_from(reader, value, offset));
    if (!names.insert(entries.back().name).second)
      reader.fail("two tensors are named '{}'", entries.back().name);
    const std::uint64_t bytes = entries.back().bytes;
    offset += bytes + padding(bytes);
    if (offset > reader.left()) reader.fail("ends early");
  }
  if (offset + kTrailer != reader.left())
    reader.fail("has {} bytes after its header, expected {}", reader.left(), offset + kTrailer);
  return entries;
}

Prefix read_prefix(Reader& reader) {
  Prefix prefix;
  if (reader.left() < sizeof prefix) reader.fail("is no Lockstep archive: {} bytes", reader.left());
  reader.read(std::as_writable_bytes(std::span(&prefix, 1)));
  if (prefix.magic != kMagic) reader.fail("is no Lockstep archive");
  if (prefix.version != kVersion)
    reader.fail("has version {}, this build reads {}", prefix.version, kVersion);
  if (prefix.header_bytes > reader.left())
    reader.fail("has a header of {} bytes, but only {} bytes are left", prefix.header_bytes,
                reader.left());
  return prefix;
}

std::string read_header(Reader& reader) {
  const Prefix prefix = read_prefix(reader);
  std::string header(prefix.header_bytes, '\0');
  reader.read(std::as_writable_bytes(std::span(header)));
  if (padding(sizeof prefix + header.size()) > reader.left()) reader.fail("ends early");
  reader.skip_padding(sizeof prefix + header.size());
  return header;
}

Tensor read_tensor(Reader& reader, const Entry& entry) {
  Tensor tensor = Tensor::empty(entry.info.shape, entry.info.dtype);
  const std::span<std::byte> bytes = bytes_of(tensor);
  reader.read(bytes);
  reader.skip_padding(entry.bytes);
  const auto is_no_bool = [](std::byte value) { return value > std::byte{1}; };
  if (entry.info.dtype == DType::boolean && std::any_of(bytes.begin(), bytes.end(), is_no_bool))
    reader.fail("tensor '{}' has a bool that is neither 0 nor 1", entry.name);
  return tensor;
}

Archive read_body(Reader& reader, const json& header) {
  Archive archive;
  archive.metadata = header.at("metadata").get<std::string>();
  for (const Entry& entry : entries_from(reader, header.at("tensors")))
    archive.tensors.emplace_back(entry.name, read_tensor(reader, entry));
  reader.check_sum();
  return archive;
}

}  // namespace

void write_archive(const std::string& path, const Archive& archive) {
  const std::string header = header_of(path, archive);
  Writer writer(path);
  writer.write(bytes_of(Prefix{.header_bytes = header.size()}));
  writer.write(std::as_bytes(std::span(header)));
  writer.align();
  for (const auto& [name, tensor] : archive.tensors) {
    const Tensor dense = tensor.contiguous();
    writer.write(bytes_of(dense));
    writer.align();
  }
  writer.finish();
}

Archive read_archive(const std::string& path) {
  Reader reader(path);
  const std::string header = read_header(reader);
  try {
    return read_body(reader, json::parse(header));
  } catch (const json::exception&) {
    reader.fail("its header is malformed");
  }
}

std::string tensors_sha256(std::vector<NamedTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.first < b.first; });
  Sha256 sum;
  for (const auto& [name, tensor] : tensors) {
    const Tensor dense = tensor.contiguous();
    sum.update(bytes_of(dense));
  }
  return sum.hex();
}

}  // namespace lockstep::io
