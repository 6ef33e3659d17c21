// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/dataset.h"

#include <cstring>

#include "lockstep/data/detail/batch.h"

namespace lockstep::data {
namespace {

// A sample's shape with the batch's axis before it.
Shape with_batch_axis(const Shape& sample, std::int64_t count) {
  Shape shape = sample;
  shape.insert(0, count);
  return shape;
}

Shape without_first_axis(const Shape& array) {
  Shape shape = array;
  shape.erase(0);
  return shape;
}

void check_index(std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size)
    throw InvalidArgument("dataset: sample {} of {} samples", index, size);
}

// Rows of `array`, one after another; the indices are checked.
Tensor gather_rows(const Tensor& array, std::span<const std::int64_t> indices) {
  const Shape row = without_first_axis(array.shape());
  Tensor result =
      Tensor::empty(with_batch_axis(row, static_cast<std::int64_t>(indices.size())), array.dtype());
  const std::size_t bytes = static_cast<std::size_t>(row.numel()) * item_size(array.dtype());
  if (bytes == 0 || indices.empty()) return result;
  const std::byte* source = array.raw();
  std::byte* target = result.raw();
  for (const std::int64_t index : indices) {
    std::memcpy(target, source + static_cast<std::size_t>(index) * bytes, bytes);
    target += bytes;
  }
  return result;
}

}  // namespace

std::vector<TensorInfo> infos_of(const Fields& fields) {
  std::vector<TensorInfo> infos;
  for (const Tensor& field : fields) infos.push_back(field.info());
  return infos;
}

Fields Dataset::batch(std::span<const std::int64_t> indices) const {
  if (indices.empty()) throw InvalidArgument("batch: no samples were asked for");
  const Fields first = sample(indices[0]);
  detail::check_defined(first, indices[0]);
  const Fields result = detail::empty_batch(first, indices.size());
  for (std::size_t place = 0; place < indices.size(); ++place)
    detail::put_sample(place == 0 ? first : sample(indices[place]), indices[place], result, place);
  return result;
}

ArrayDataset::ArrayDataset(Fields arrays, std::vector<std::string> class_names)
    : class_names_(std::move(class_names)) {
  if (arrays.empty()) throw InvalidArgument("dataset: no arrays, at least one is needed");
  for (const Tensor& array : arrays) {
    if (array.rank() == 0)
      throw InvalidArgument("dataset: array {} is a scalar, it needs an axis of samples",
                            arrays_.size());
    if (array.shape(0) != arrays[0].shape(0))
      throw InvalidArgument("dataset: array {} has {} samples, array 0 has {}", arrays_.size(),
                            array.shape(0), arrays[0].shape(0));
    arrays_.push_back(array.contiguous());
  }
}

std::int64_t ArrayDataset::size() const { return arrays_[0].shape(0); }

Fields ArrayDataset::sample(std::int64_t index) const {
  check_index(index, size());
  Fields fields;
  for (const Tensor& array : arrays_) {
    const Shape shape = without_first_axis(array.shape());
    fields.push_back(
        array.window(shape, contiguous_strides(shape), array.offset() + index * shape.numel()));
  }
  return fields;
}

Fields ArrayDataset::batch(std::span<const std::int64_t> indices) const {
  for (const std::int64_t index : indices) check_index(index, size());
  Fields batch;
  for (const Tensor& array : arrays_) batch.push_back(gather_rows(array, indices));
  return batch;
}

}  // namespace lockstep::data
