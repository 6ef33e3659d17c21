// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/idx.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "lockstep/base/file.h"
#include "lockstep/base/memory_error.h"
#include "lockstep/data/detail/bytes.h"
#include "lockstep/data/detail/labels.h"

namespace lockstep::data {
namespace {

// Two zero bytes, the element's type, the rank, then the sizes: four bytes each, big endian.
struct Header {
  std::uint8_t type;
  Shape shape;
  std::size_t elements;
  std::size_t element_bytes;
  std::size_t bytes;
};

std::optional<std::size_t> element_bytes(std::uint8_t type) {
  switch (type) {
    case 0x08: return 1;
    case 0x09: return 1;
    case 0x0b: return 2;
    case 0x0c: return 4;
    case 0x0d: return 4;
    case 0x0e: return 8;
    default: return std::nullopt;
  }
}

void check_magic(std::string_view bytes, const std::string& name) {
  if (bytes.size() < 4)
    throw Corrupt("{}: idx: has {} bytes, a header has at least 4", name, bytes.size());
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  if (byte(0) != 0 || byte(1) != 0 || !element_bytes(byte(2)) || byte(3) == 0)
    throw Corrupt(
        "{}: idx: begins with {:02x} {:02x} {:02x} {:02x}, expected 00 00, a type (08, 09, 0b, 0c, "
        "0d or 0e) and a rank from 1",
        name, byte(0), byte(1), byte(2), byte(3));
  if (byte(3) > kMaxRank)
    throw Corrupt("{}: idx: rank {}, at most {} is supported", name, byte(3), kMaxRank);
}

// The product of the sizes, or Corrupt before it can be more than the file can hold. An empty
// array's other sizes are bounded too, since strides are products of them.
std::size_t count_elements(const Shape& shape, std::size_t available, const std::string& name) {
  const bool empty = std::count(shape.begin(), shape.end(), 0) > 0;
  const std::size_t limit = empty ? std::size_t{1} << 32 : available;
  std::size_t count = 1;
  for (const std::int64_t size : shape) {
    if (size == 0) continue;
    if (count > limit / static_cast<std::size_t>(size))
      throw Corrupt("{}: idx: its header says {}, the file has {} bytes after the header", name,
                    shape.str(), available);
    count *= static_cast<std::size_t>(size);
  }
  return empty ? 0 : count;
}

// The type and the shape alone: whether the elements are there is another question.
Header parse_claim(std::string_view bytes, const std::string& name) {
  check_magic(bytes, name);
  const auto rank = static_cast<std::size_t>(bytes[3]);
  Header header{static_cast<std::uint8_t>(bytes[2]), {}, 0, 0, 4 + 4 * rank};
  if (bytes.size() < header.bytes)
    throw Corrupt("{}: idx: has {} bytes, its header alone has {}", name, bytes.size(),
                  header.bytes);
  for (std::size_t i = 0; i < rank; ++i)
    header.shape.push_back(detail::big_endian<std::uint32_t>(bytes.substr(4 + 4 * i, 4)));
  header.element_bytes = *element_bytes(header.type);
  return header;
}

// Of gzip, as much as the header says, if that is not too much.
std::string inflate(std::string_view bytes, const std::string& path, std::int64_t max_inflated) {
  const Header header = parse_claim(gunzip_begin(bytes, path, 4 + 4 * kMaxRank), path);
  const auto most = static_cast<std::size_t>(max_inflated);
  std::size_t size = header.element_bytes;
  bool fits = true;
  for (const std::int64_t extent : header.shape)
    fits &= !__builtin_mul_overflow(size, static_cast<std::size_t>(extent), &size);
  if (!fits || size > most)
    throw Corrupt("{}: idx: its header says {}, which is more than max_inflated, {} bytes", path,
                  header.shape.str(), most);
  return gunzip(bytes, path, header.bytes + size, "which is what its header says");
}

Header parse_header(std::string_view bytes, const std::string& name) {
  Header header = parse_claim(bytes, name);
  header.elements = count_elements(header.shape, bytes.size() - header.bytes, name);
  const std::size_t expected = header.bytes + header.elements * header.element_bytes;
  if (bytes.size() != expected)
    throw Corrupt("{}: idx: has {} bytes, its header says {}, which takes {}", name, bytes.size(),
                  header.shape.str(), expected);
  return header;
}

// Elements of type T, whose bits are the big-endian Bits.
template <class T, class Bits>
Tensor swap_into(const Header& header, std::string_view data) {
  const Tensor result = Tensor::empty(header.shape, dtype_of<T>);
  T* target = result.data<T>();
  for (std::size_t i = 0; i < header.elements; ++i) {
    const Bits bits = detail::big_endian<Bits>(data.substr(i * sizeof(Bits), sizeof(Bits)));
    std::memcpy(&target[i], &bits, sizeof bits);
  }
  return result;
}

Tensor copy_into(const Header& header, std::string_view data, DType dtype) {
  const Tensor result = Tensor::empty(header.shape, dtype);
  if (!data.empty()) std::memcpy(result.raw(), data.data(), data.size());
  return result;
}

std::int64_t first_axis(const Tensor& images, const std::string& path) {
  if (images.rank() != 3 || images.dtype() != DType::uint8)
    throw Corrupt("{}: idx: has {}, images are uint8 [N, H, W]", path, images.info().str());
  return images.shape(0);
}

Tensor with_channel_axis(const Tensor& images) {
  Shape shape = images.shape();
  shape.push_back(1);
  return images.window(shape, contiguous_strides(shape), images.offset());
}

}  // namespace

Tensor parse_idx(std::string_view bytes, const std::string& name) {
  const Header header = parse_header(bytes, name);
  const std::string_view data = bytes.substr(header.bytes);
  switch (header.type) {
    case 0x08: return copy_into(header, data, DType::uint8);
    case 0x09: return copy_into(header, data, DType::int8);
    case 0x0b: return swap_into<std::int16_t, std::uint16_t>(header, data);
    case 0x0c: return swap_into<std::int32_t, std::uint32_t>(header, data);
    case 0x0d: return swap_into<float, std::uint32_t>(header, data);
    default: return swap_into<double, std::uint64_t>(header, data);
  }
}

Tensor read_idx(const std::string& path, std::int64_t max_inflated) {
  const std::string bytes = read_file(path);
  return with_memory_for(path, [&] {
    return parse_idx(is_gzip(bytes) ? inflate(bytes, path, max_inflated) : bytes, path);
  });
}

DatasetPtr read_idx_images(const std::string& images, const std::string& labels,
                           const IdxOptions& options) {
  const Tensor pixels = read_idx(images, options.max_inflated);
  const Tensor numbers = read_idx(labels, options.max_inflated);
  const std::int64_t count = first_axis(pixels, images);
  if (numbers.rank() != 1 || !is_integral(numbers.dtype()))
    throw Corrupt("{}: idx: has {}, labels are integers [N]", labels, numbers.info().str());
  if (numbers.numel() != count)
    throw Corrupt("{}: has {} labels, {} has {} images", labels, numbers.numel(), images, count);
  const std::vector<std::int64_t> values = numbers.to_vector<std::int64_t>();
  if (options.classes > 0) detail::check_labels(values, options.classes, labels);
  return std::make_shared<ArrayDataset>(
      Fields{with_channel_axis(pixels), Tensor::from(values, {count})}, options.class_names);
}

}  // namespace lockstep::data
