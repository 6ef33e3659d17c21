// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/shard_ops.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/ops/shard_ops.h"

namespace lockstep::kernels {
namespace {

// Halves come here as float32.
template <class T>
void shard_mean_kernel(const KernelCall& call) {
  const auto count = static_cast<std::size_t>(call.outputs[0].numel());
  T* y = call.outputs[0].as<T>();
  std::copy_n(call.inputs[0].as<T>(), count, y);
  ShardMeeting* meeting = ShardMeetingScope::current();
  std::int64_t shards = 1;
  if constexpr (std::is_same_v<T, float>) {
    if (meeting != nullptr) shards = meeting->mean({y, count});
  } else if (meeting != nullptr) {
    throw InvalidArgument("shard_mean: x is float64, expected float32: shards meet in it");
  }
  *call.outputs[1].as<T>() = static_cast<T>(shards);
}

}  // namespace

std::span<const KernelCandidate> shard_mean_kernels() {
  static constexpr KernelCandidate list[] = {
      {"float32", {DType::float32}, shard_mean_kernel<float>},
      {"float64", {DType::float64}, shard_mean_kernel<double>}};
  return list;
}

}  // namespace lockstep::kernels
