// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/detail/stored_tensor.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace lockstep::io::detail {
namespace {

template <class Stored, class Wide>
Tensor widened(const Place& place, std::span<const std::byte> bytes, const Shape& shape) {
  Tensor tensor = Tensor::empty(shape, dtype_of<Wide>);
  Wide* target = tensor.numel() == 0 ? nullptr : tensor.data<Wide>();
  for (std::size_t i = 0; i * sizeof(Stored) < bytes.size(); ++i) {
    Stored value{};
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    if constexpr (sizeof(Stored) == sizeof(Wide))
      if (value > static_cast<Stored>(std::numeric_limits<Wide>::max()))
        place.fail("has the number {}, which int64 does not hold", value);
    target[i] = static_cast<Wide>(value);
  }
  return tensor;
}

Tensor read_unsigned(const Place& place, std::size_t item, const Shape& shape,
                     const std::function<void(std::span<std::byte>)>& read) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(shape.numel()) * item);
  read(bytes);
  if (item == 2) return widened<std::uint16_t, std::int32_t>(place, bytes, shape);
  if (item == 4) return widened<std::uint32_t, std::int64_t>(place, bytes, shape);
  return widened<std::uint64_t, std::int64_t>(place, bytes, shape);
}

}  // namespace

Shape shape_from(const Place& place, std::span<const std::int64_t> extents) {
  if (extents.size() > kMaxRank)
    place.fail("has {} axes, expected {} at most", extents.size(), kMaxRank);
  for (const std::int64_t extent : extents)
    if (extent < 0) place.fail("has an extent of {}", extent);
  return Shape(extents);
}

std::uint64_t bytes_of(const Place& place, const Shape& shape, std::size_t item,
                       std::uint64_t limit, const char* whose) {
  std::uint64_t bytes = item;
  bool counted = true;
  for (const std::int64_t extent : shape)
    counted &= !__builtin_mul_overflow(
        bytes, static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 1)), &bytes);
  counted &= bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (!counted || (!empty && bytes > limit)) place.fail("of shape {} {}", shape.str(), whose);
  return empty ? 0 : bytes;
}

Tensor read_stored(const Place& place, const StoredType& type, const Shape& shape,
                   const std::function<void(std::span<std::byte>)>& read) {
  if (type.unsigned_bytes > 0) return read_unsigned(place, type.unsigned_bytes, shape, read);
  const Tensor tensor = Tensor::empty(shape, type.dtype);
  const std::span<std::byte> bytes = bytes_of(tensor);
  read(bytes);
  const auto is_no_bool = [](std::byte value) { return value > std::byte{1}; };
  if (type.dtype == DType::boolean && std::any_of(bytes.begin(), bytes.end(), is_no_bool))
    place.fail("has a bool that is neither 0 nor 1");
  return tensor;
}

std::span<std::byte> bytes_of(const Tensor& dense) {
  return {dense.numel() == 0 ? nullptr : dense.raw(), dense.info().bytes()};
}

Tensor to_write(const Tensor& tensor) { return tensor.to(Device()).contiguous(); }

}  // namespace lockstep::io::detail
