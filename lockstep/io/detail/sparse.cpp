// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/detail/sparse.h"

#include <algorithm>

namespace lockstep::io::detail {
namespace {

using Integers = std::vector<std::int64_t>;

Integers integers(const Place& place, const char* what, const Tensor& tensor) {
  if (!is_integral(tensor.dtype()) || tensor.rank() != 1)
    place.fail("has {} of {}, expected whole numbers in a row", what, tensor.info().str());
  return tensor.to_vector<std::int64_t>();
}

void check_inside(const Place& place, const char* what, const Integers& indices,
                  std::int64_t size) {
  for (const std::int64_t index : indices)
    if (index < 0 || index >= size)
      place.fail("has the {} {}, expected 0 to {}", what, index, size - 1);
}

void check_rows(const Place& place, const StoredArray& array) {
  const Integers rows = integers(place, "row numbers", array.indices[0]);
  Shape row = array.shape, stored_row = array.data.shape();
  if (row.rank() < 1 || stored_row.rank() < 1 ||
      stored_row[0] != static_cast<std::int64_t>(rows.size()))
    place.fail("has {} row numbers for rows of shape {}", rows.size(), array.data.shape().str());
  row.erase(0);
  stored_row.erase(0);
  if (row != stored_row)
    place.fail("of shape {} has rows of shape {}", array.shape.str(), stored_row.str());
  check_inside(place, "row", rows, array.shape[0]);
}

void check_csr(const Place& place, const StoredArray& array) {
  const std::int64_t count = array.data.numel();
  if (array.shape.rank() != 2 || array.data.rank() != 1)
    place.fail("is csr of shape {} with values of shape {}", array.shape.str(),
               array.data.shape().str());
  const Integers begin = integers(place, "row starts", array.indices[0]);
  const Integers columns = integers(place, "columns", array.indices[1]);
  if (count == 0) return;  // MXNet writes no row starts then
  if (static_cast<std::int64_t>(begin.size()) != array.shape[0] + 1 ||
      static_cast<std::int64_t>(columns.size()) != count)
    place.fail("of shape {} has {} row starts and {} columns for {} values", array.shape.str(),
               begin.size(), columns.size(), count);
  if (begin.front() != 0 || begin.back() > count || !std::is_sorted(begin.begin(), begin.end()))
    place.fail("has row starts that do not rise from 0 to {}", count);
  check_inside(place, "column", columns, array.shape[1]);
}

void fill_rows(const StoredArray& array, const Tensor& dense) {
  const Integers rows = array.indices[0].to_vector<std::int64_t>();
  if (rows.empty() || dense.numel() == 0) return;
  const Tensor data = array.data.contiguous();
  const std::size_t bytes = bytes_of(data).size() / rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::memcpy(dense.raw() + static_cast<std::size_t>(rows[i]) * bytes, data.raw() + i * bytes,
                bytes);
}

void fill_csr(const StoredArray& array, const Tensor& dense) {
  if (array.data.numel() == 0) return;
  const Tensor data = array.data.contiguous();
  const Integers begin = array.indices[0].to_vector<std::int64_t>();
  const Integers columns = array.indices[1].to_vector<std::int64_t>();
  const std::size_t item = item_size(data.dtype());
  const auto width = static_cast<std::size_t>(array.shape[1]);
  for (std::size_t row = 0; row + 1 < begin.size(); ++row)
    for (auto i = static_cast<std::size_t>(begin[row]);
         i < static_cast<std::size_t>(begin[row + 1]); ++i)
      std::memcpy(dense.raw() + (row * width + static_cast<std::size_t>(columns[i])) * item,
                  data.raw() + i * item, item);
}

}  // namespace

void check_sparse(const Place& place, const StoredArray& array) {
  if (array.storage == Storage::row_sparse) check_rows(place, array);
  if (array.storage == Storage::csr) check_csr(place, array);
}

Tensor dense_of(const Place& place, const StoredArray& array, std::uint64_t& left) {
  if (array.storage == Storage::dense) return array.data;
  left -= bytes_of(place, array.shape, item_size(array.data.dtype()), left,
                   "is sparse, and too large as a dense tensor (max_inflated)");
  const Tensor dense = Tensor::zeros(array.shape, array.data.dtype());
  if (array.storage == Storage::row_sparse)
    fill_rows(array, dense);
  else
    fill_csr(array, dense);
  return dense;
}

}  // namespace lockstep::io::detail
