// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/detail/sparse.h"

#include <algorithm>

namespace lockstep::io::detail {
namespace {

std::vector<std::int64_t> integers(const Place& place, const char* what, const Tensor& tensor) {
  if (!is_integral(tensor.dtype()) || tensor.rank() != 1)
    place.fail("has {} of {}, expected whole numbers in a row", what, tensor.info().str());
  return tensor.to_vector<std::int64_t>();
}

void check_index(const Place& place, const char* what, std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size)
    place.fail("has the {} {}, expected 0 to {}", what, index, size - 1);
}

}  // namespace

Tensor dense_of_rows(const Place& place, const Shape& shape, const Tensor& data,
                     const Tensor& rows) {
  const std::vector<std::int64_t> numbers = integers(place, "row numbers", rows);
  Shape row = shape, stored_row = data.shape();
  if (row.rank() < 1 || stored_row.rank() < 1 ||
      stored_row[0] != static_cast<std::int64_t>(numbers.size()))
    place.fail("has {} row numbers for rows of shape {}", numbers.size(), data.shape().str());
  row.erase(0);
  stored_row.erase(0);
  if (row != stored_row)
    place.fail("of shape {} has rows of shape {}", shape.str(), stored_row.str());
  const Tensor dense = Tensor::zeros(shape, data.dtype());
  const std::size_t bytes = static_cast<std::size_t>(row.numel()) * item_size(data.dtype());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    check_index(place, "row", numbers[i], shape[0]);
    if (bytes > 0)
      std::memcpy(dense.raw() + static_cast<std::size_t>(numbers[i]) * bytes,
                  data.raw() + i * bytes, bytes);
  }
  return dense;
}

Tensor dense_of_csr(const Place& place, const Shape& shape, const Tensor& data,
                    const Tensor& starts, const Tensor& columns) {
  if (shape.rank() != 2 || data.rank() != 1)
    place.fail("is csr of shape {} with values of shape {}", shape.str(), data.shape().str());
  const std::vector<std::int64_t> begin = integers(place, "row starts", starts);
  const std::vector<std::int64_t> column = integers(place, "columns", columns);
  const Tensor dense = Tensor::zeros(shape, data.dtype());
  if (data.numel() == 0) return dense;  // MXNet writes no row starts then
  if (static_cast<std::int64_t>(begin.size()) != shape[0] + 1 ||
      static_cast<std::int64_t>(column.size()) != data.numel())
    place.fail("of shape {} has {} row starts and {} columns for {} values", shape.str(),
               begin.size(), column.size(), data.numel());
  if (begin.front() != 0 || begin.back() > data.numel() ||
      !std::is_sorted(begin.begin(), begin.end()))
    place.fail("has row starts that do not rise from 0 to {}", data.numel());
  const std::size_t item = item_size(data.dtype());
  for (std::size_t row = 0; row + 1 < begin.size(); ++row)
    for (auto i = static_cast<std::size_t>(begin[row]);
         i < static_cast<std::size_t>(begin[row + 1]); ++i) {
      check_index(place, "column", column[i], shape[1]);
      const std::size_t to =
          row * static_cast<std::size_t>(shape[1]) + static_cast<std::size_t>(column[i]);
      std::memcpy(dense.raw() + to * item, data.raw() + i * item, item);
    }
  return dense;
}

}  // namespace lockstep::io::detail
