// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/same_shapes.h"

#include "lockstep/base/error.h"
#include "lockstep/comm/agreement.h"

namespace lockstep::train::detail {

// By FNV-1a.
std::uint64_t number_of_shape(const std::vector<TensorInfo>& fields) {
  std::uint64_t number = 0xcbf29ce484222325U;
  const auto add = [&](std::int64_t value) {
    number = (number ^ static_cast<std::uint64_t>(value)) * 0x100000001b3U;
  };
  for (const TensorInfo& info : fields) {
    add(static_cast<std::int64_t>(info.dtype));
    add(info.shape.rank());
    for (const std::int64_t extent : info.shape) add(extent);
  }
  return number == kvstore::Vote::kShapesDiffer ? 0 : number;
}

void check_same_shapes(kvstore::Group& group, const std::vector<TensorInfo>& fields) {
  std::string own;
  for (const TensorInfo& info : fields) own += (own.empty() ? "" : ", ") + info.str();
  comm::compare_texts(
      group.share(own), [](std::size_t worker, const std::string& first, const std::string& its) {
        throw InvalidArgument(
            "train: the shards of worker {} are {}, of worker 0 {}: all shards of a step have one "
            "shape (bucket_sampler with the global batch as its batch)",
            worker, its, first);
      });
}

}  // namespace lockstep::train::detail
