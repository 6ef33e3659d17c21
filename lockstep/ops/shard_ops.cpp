// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/shard_ops.h"

#include "lockstep/base/error.h"
#include "lockstep/ops/cpu/shard_ops.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/op.h"

namespace lockstep {
namespace {

thread_local ShardMeeting* meeting_of_thread = nullptr;

Infos infer_shard_mean(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  if (!is_floating(x.dtype))
    throw InvalidArgument("shard_mean: takes floating tensors, got {}", name_of(x.dtype));
  return {x, {Shape{}, x.dtype, x.device}};
}

// A step's loss is the mean of those of its shards: what the mean depends on has the mean of the
// shards' gradients as its own.
std::vector<Tensor> shard_mean_gradient(const GradientArgs& args) {
  if (!args.grad().defined()) return {Tensor()};
  return {shard_mean(args.grad()).y};
}

constexpr ArgumentDoc kInputs[] = {{"x", "floating, of one shape on all shards"}};
constexpr ArgumentDoc kOutputs[] = {{"y", "of x's shape: the same on all shards"},
                                    {"shards", "how many there are, a scalar"}};
constexpr OpDocs kDocs{
    "The mean over the shards of a training step, which wait for each other; outside of one, x.",
    kInputs, kOutputs};

}  // namespace

ShardMeetingScope::ShardMeetingScope(ShardMeeting& meeting) {
  check(meeting_of_thread == nullptr, "a thread computes one shard at a time");
  meeting_of_thread = &meeting;
}

ShardMeetingScope::~ShardMeetingScope() { meeting_of_thread = nullptr; }

ShardMeeting* ShardMeetingScope::current() { return meeting_of_thread; }

const OpDef& shard_mean_op() {
  static const OpDef op{.name = "shard_mean",
                        .docs = kDocs,
                        .infer = infer_shard_mean,
                        .gradient = shard_mean_gradient,
                        .cpu = kernels::shard_mean_kernels()};
  return op;
}

ShardMeanResult shard_mean(const Tensor& x) {
  const Tensor inputs[] = {x};
  const std::vector<Tensor> results = apply(shard_mean_op(), inputs);
  return {results[0], results[1]};
}

}  // namespace lockstep
