// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/npy.h"

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "lockstep/base/file.h"

namespace lockstep {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Kind {
  std::string_view descr;
  DType dtype;
};
constexpr std::array<Kind, 9> kKinds{{{"<f4", DType::float32},
                                      {"<f8", DType::float64},
                                      {"<f2", DType::float16},
                                      {"|i1", DType::int8},
                                      {"|u1", DType::uint8},
                                      {"<i2", DType::int16},
                                      {"<i4", DType::int32},
                                      {"<i8", DType::int64},
                                      {"|b1", DType::boolean}}};

// Reads the header's Python dictionary, as far as NumPy writes one.
class Header {
 public:
  Header(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  DType dtype() const {
    const std::string_view descr = quoted(after("'descr'"));
    for (const Kind& kind : kKinds)
      if (kind.descr == descr) return kind.dtype;
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

}  // namespace

Tensor load_npy(const std::string& path) {
  const std::string file = read_file(path);
  const std::string_view bytes = file;
  if (!bytes.starts_with(kMagic) || bytes.size() < 12)
    throw Corrupt("{}: is not a .npy file, or ends early", path);
  const std::size_t length_bytes = bytes[6] == 1 ? 2 : 4;
  const std::size_t start = 8 + length_bytes;
  const std::size_t length = little_endian(bytes.substr(8, length_bytes));
  if (bytes.size() < start || bytes.size() - start < length)
    throw Corrupt("{}: ends inside its header", path);
  const Header header(bytes.substr(start, length), path);
  if (header.fortran_order()) throw Corrupt("{}: is in Fortran order, expected C order", path);
  const TensorInfo info{header.shape(), header.dtype(), {}};
  std::size_t expected = item_size(info.dtype);
  bool overflow = false;
  for (std::int64_t size : info.shape)
    overflow |= __builtin_mul_overflow(expected, static_cast<std::size_t>(size), &expected);
  const std::string_view data = bytes.substr(start + length);
  if (overflow || data.size() != expected)
    throw Corrupt("{}: has {} bytes of data, {} needs another number", path, data.size(),
                  info.str());
  Tensor tensor = Tensor::empty(info.shape, info.dtype);
  if (!data.empty()) std::memcpy(tensor.raw(), data.data(), data.size());
  return tensor;
}

void save_npy(const std::string& path, const Tensor& tensor) {
  std::string_view descr;
  for (const Kind& kind : kKinds)
    if (kind.dtype == tensor.dtype()) descr = kind.descr;
  if (descr.empty())
    throw InvalidArgument("{}: a .npy file cannot hold {}", path, name_of(tensor.dtype()));
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}",
                                   descr, shape_text(tensor.shape()));
  const std::size_t prefix = kMagic.size() + 4;
  header.append((64 - (prefix + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string file(kMagic);
  file += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
           static_cast<char>(header.size() >> 8)};
  const Tensor dense = tensor.contiguous();
  file += header;
  file.append(reinterpret_cast<const char*>(dense.raw()), dense.info().bytes());
  write_file(path, file);
}

}  // namespace lockstep
