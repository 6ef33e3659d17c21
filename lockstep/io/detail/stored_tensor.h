// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>

#include "lockstep/tensor/tensor.h"

// What readers of other frameworks' files have in common: elements of types that we have or can
// hold, and shapes that nobody vouches for.
namespace lockstep::io::detail {

// How elements are stored: as a dtype of ours, or as unsigned integers of 2, 4 or 8 bytes, which
// become the next signed ones (8 bytes stay 8: what does not fit is refused).
struct StoredType {
  DType dtype = DType::float32;
  std::size_t unsigned_bytes = 0;
  std::size_t item() const { return unsigned_bytes > 0 ? unsigned_bytes : item_size(dtype); }
};

inline constexpr StoredType kUint16{DType::int32, 2}, kUint32{DType::int64, 4},
    kUint64{DType::int64, 8};

// Which tensor of which file, for errors: "net.params: tensor 'w' ...".
struct Place {
  std::string path;
  std::string tensor;
  template <class... A>
  [[noreturn]] void fail(fmt::format_string<A...> format, A&&... args) const {
    throw Corrupt("{}: {} {}", path, tensor, fmt::format(format, std::forward<A>(args)...));
  }
};

// Throws Corrupt when there are too many axes, or an extent is negative.
Shape shape_from(const Place& place, std::span<const std::int64_t> extents);
// How many bytes elements of `item` bytes take. Throws Corrupt above `limit`: nothing has been
// asked for by then.
std::uint64_t bytes_of(const Place& place, const Shape& shape, std::size_t item,
                       std::uint64_t limit, const char* whose = "is larger than the file");

// A tensor whose bytes `read` delivers, after bytes_of() has found them possible. Throws Corrupt
// for bools other than 0 and 1.
Tensor read_stored(const Place& place, const StoredType& type, const Shape& shape,
                   const std::function<void(std::span<std::byte>)>& read);

// The bytes of a dense tensor of the host.
std::span<std::byte> bytes_of(const Tensor& dense);
// Dense and on the host, as files are written.
Tensor to_write(const Tensor& tensor);

}  // namespace lockstep::io::detail
