// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>

#include "lockstep/base/file.h"
#include "lockstep/io/detail/npy_bytes.h"
#include "lockstep/io/detail/stored_tensor.h"

namespace lockstep {
namespace {

using io::detail::StoredType;

constexpr std::string_view kMagic = "\x93NUMPY";

// NumPy has no bfloat16: libraries that add it write the two bytes without a meaning, MXNet a name
// of its own.
constexpr std::string_view kOpaque = "|V2";

struct Kind {
  std::string_view descr;
  StoredType type;
};
constexpr std::array<Kind, 15> kKinds{{{"<f4", {DType::float32}},
                                       {"<f8", {DType::float64}},
                                       {"<f2", {DType::float16}},
                                       {kOpaque, {DType::bfloat16}},
                                       {"<V2", {DType::bfloat16}},
                                       {"<b2", {DType::bfloat16}},
                                       {"|i1", {DType::int8}},
                                       {"|u1", {DType::uint8}},
                                       {"<i2", {DType::int16}},
                                       {"<i4", {DType::int32}},
                                       {"<i8", {DType::int64}},
                                       {"|b1", {DType::boolean}},
                                       {"<u2", io::detail::kUint16},
                                       {"<u4", io::detail::kUint32},
                                       {"<u8", io::detail::kUint64}}};

// Reads the header's Python dictionary, as far as NumPy writes one.
class Header {
 public:
  Header(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  StoredType type() const {
    const std::string_view descr = quoted(after("'descr'"));
    for (const Kind& kind : kKinds)
      if (kind.descr == descr) return kind.type;
    fail(fmt::format("holds '{}', which is not supported", descr));
  }

  bool fortran_order() const { return after("'fortran_order'").starts_with("True"); }

  Shape shape() const {
    std::string_view rest = after("'shape'");
    if (!rest.starts_with("(")) fail("has no shape in its header");
    rest.remove_prefix(1);
    std::vector<std::int64_t> sizes;
    while (true) {
      while (!rest.empty() && (rest.front() == ' ' || rest.front() == ',')) rest.remove_prefix(1);
      if (rest.empty()) fail("has no end of shape in its header");
      if (rest.front() == ')') break;
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
      if (error != std::errc() || size < 0) fail("has a malformed shape in its header");
      sizes.push_back(size);
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    }
    if (sizes.size() > kMaxRank) fail(fmt::format("has {} axes", sizes.size()));
    return Shape(sizes);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Corrupt("{}: {}", path_, what); }

  std::string_view after(std::string_view key) const {
    const std::size_t at = text_.find(key);
    const std::size_t colon = at == std::string_view::npos ? at : text_.find(':', at);
    if (colon == std::string_view::npos) fail(fmt::format("has no {} in its header", key));
    std::string_view rest = text_.substr(colon + 1);
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
    return rest;
  }

  std::string_view quoted(std::string_view rest) const {
    const std::size_t end = rest.size() > 1 ? rest.find(rest.front(), 1) : std::string_view::npos;
    if (end == std::string_view::npos) fail("has a malformed descr in its header");
    return rest.substr(1, end - 1);
  }

  std::string_view text_;
  const std::string& path_;
};

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::string shape_text(const Shape& shape) {
  std::string text = "(";
  for (std::int64_t size : shape) text += std::to_string(size) + ", ";
  if (shape.rank() > 1) text.resize(text.size() - 2);
  if (shape.rank() == 1) text.resize(text.size() - 1);
  return text + ")";
}

std::string_view descr_of(DType dtype) {
  for (const Kind& kind : kKinds)
    if (kind.type.dtype == dtype) return kind.descr;
  fail_check("a dtype without a name in .npy files");
}

// A Fortran array is the transposed one, read with its strides.
Tensor transposed(const Tensor& dense) {
  Shape shape = dense.shape();
  Strides strides = dense.strides();
  std::reverse(shape.begin(), shape.end());
  std::reverse(strides.begin(), strides.end());
  return dense.window(shape, strides, 0).contiguous();
}

}  // namespace

namespace io::detail {

Tensor npy_from_bytes(std::string_view bytes, const std::string& path) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 12)
    throw Corrupt("{}: is not a .npy file, or ends early", path);
  const std::size_t length_bytes = bytes[6] == 1 ? 2 : 4;
  const std::size_t start = 8 + length_bytes;
  const std::size_t length = little_endian(bytes.substr(8, length_bytes));
  if (bytes.size() < start || bytes.size() - start < length)
    throw Corrupt("{}: ends inside its header", path);
  const Header header(bytes.substr(start, length), path);
  const StoredType type = header.type();
  Shape shape = header.shape();
  const std::string_view data = bytes.substr(start + length);
  const Place place{path, "the array"};
  constexpr auto kNoLimit = std::numeric_limits<std::uint64_t>::max();
  if (bytes_of(place, shape, type.item(), kNoLimit) != data.size())
    throw Corrupt("{}: has {} bytes of data, {} needs another number", path, data.size(),
                  TensorInfo{shape, type.dtype, {}}.str());
  const bool fortran = header.fortran_order();
  if (fortran) std::reverse(shape.begin(), shape.end());
  const Tensor tensor = read_stored(place, type, shape, [&](std::span<std::byte> target) {
    if (!target.empty()) std::memcpy(target.data(), data.data(), target.size());
  });
  return fortran ? transposed(tensor) : tensor;
}

std::string npy_header(const TensorInfo& info) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                   descr_of(info.dtype), shape_text(info.shape));
  const std::size_t prefix = kMagic.size() + 4;
  header.append((64 - (prefix + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
            static_cast<char>(header.size() >> 8)};
  return bytes + header;
}

}  // namespace io::detail

Tensor load_npy(const std::string& path) {
  return io::detail::npy_from_bytes(read_file(path), path);
}

void save_npy(const std::string& path, const Tensor& tensor) {
  const Tensor dense = io::detail::to_write(tensor);
  const std::string header = io::detail::npy_header(dense.info());
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(header)));
  file.write(io::detail::bytes_of(dense));
  file.commit();
}

}  // namespace lockstep
