// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/placed_value.h"

#include <algorithm>

#include "lockstep/kvstore/group_sum.h"
#include "lockstep/kvstore/servers/key_messages.h"
#include "lockstep/kvstore/store_checks.h"

namespace lockstep::kvstore {

Tensor PlacedValue::as_given(const Tensor& data) const {
  if (info.dtype == DType::float32) return data;
  Tensor result = Tensor::empty(data.shape(), info.dtype);
  result.assign(data);
  return result;
}

void PushPulling::send_lost_again() {
  for (std::size_t i = taken + 1; i < parts.size(); ++i) parts[i].answer.is_done();
}

std::optional<std::uint64_t> local_row(const Place& its, std::int64_t id) {
  const auto row = static_cast<std::size_t>(id);
  if (row < its.range.row || row >= its.range.row + its.range.rows) return {};
  return row - its.range.row;
}

Parts parts_of(std::size_t count) {
  if (count <= wire::kFloatsAtOnce) return {{0, count}};
  Parts parts;
  for (std::size_t offset = 0; offset < count; offset += wire::kFloatsAtOnce)
    parts.emplace_back(offset, std::min<std::size_t>(wire::kFloatsAtOnce, count - offset));
  return parts;
}

std::vector<Tensor> all_dense(const std::vector<Tensor>& given) {
  std::vector<Tensor> tensors;
  for (const Tensor& tensor : given) {
    const bool is_dense =
        tensor.dtype() == DType::float32 && tensor.is_contiguous() && tensor.device().is_host();
    tensors.push_back(is_dense ? tensor : as_float32(tensor));
  }
  return tensors;
}

Tensor sum_of(const std::vector<Tensor>& tensors) {
  std::vector<std::span<const float>> values;
  for (const Tensor& tensor : tensors) values.emplace_back(floats(tensor));
  Tensor sum = Tensor::empty(tensors[0].shape());
  sum_in_tree(values, floats(sum));
  return sum;
}

}  // namespace lockstep::kvstore
