// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/slice_ops.h"

#include "lockstep/base/error.h"
#include "lockstep/ops/cpu/slice_ops.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/op.h"

namespace lockstep {
namespace {

thread_local SliceMeeting* meeting_of_thread = nullptr;

const SliceTransferAttrs& attrs_of(const InferArgs& args) {
  return args.attrs.as<SliceTransferAttrs>();
}

std::size_t own_count(const SliceTransferAttrs& attrs) {
  return static_cast<std::size_t>(attrs.last - attrs.first);
}

// One input of each slice that is here.
void check_parts(const InferArgs& args) {
  const SliceTransferAttrs& attrs = attrs_of(args);
  if (attrs.first < 0 || attrs.first >= attrs.last || attrs.last > attrs.slices ||
      args.inputs.size() != own_count(attrs))
    throw InvalidArgument("{}: {} inputs for the slices {} to {} of {}", args.op,
                          args.inputs.size(), attrs.first, attrs.last, attrs.slices);
}

Infos infer_spread(const InferArgs& args) {
  return Infos(own_count(attrs_of(args)), args.inputs[0]);
}

Infos infer_combined(const InferArgs& args) {
  check_parts(args);
  for (const TensorInfo& part : args.inputs)
    if (!(part == args.inputs[0]))
      throw InvalidArgument("{}: one slice has {}, another one {}", args.op, part.str(),
                            args.inputs[0].str());
  return {args.inputs[0]};
}

Infos infer_split(const InferArgs& args) {
  const SliceTransferAttrs& attrs = attrs_of(args);
  const SliceCut cut = attrs.cut();
  const TensorInfo& x = args.inputs[0];
  if (cut.axis < 0 || cut.axis >= x.shape.rank() || x.shape[cut.axis] != cut.extent())
    throw InvalidArgument("{}: axis {} of {} cannot be cut into {} slices of {}", args.op, cut.axis,
                          x.str(), cut.slices(), cut.extent());
  Infos parts;
  for (std::int64_t k = attrs.first; k < attrs.last; ++k)
    parts.push_back({cut.shape_of(x.shape, k), x.dtype, x.device});
  return parts;
}

Infos infer_gather(const InferArgs& args) {
  check_parts(args);
  const SliceTransferAttrs& attrs = attrs_of(args);
  const SliceCut cut = attrs.cut();
  TensorInfo whole = args.inputs[0];
  if (cut.axis < 0 || cut.axis >= whole.shape.rank())
    throw InvalidArgument("{}: {} has no axis {}", args.op, whole.str(), cut.axis);
  whole.shape[cut.axis] = cut.extent();
  for (std::size_t i = 0; i < args.inputs.size(); ++i) {
    const Shape expected = cut.shape_of(whole.shape, attrs.first + static_cast<std::int64_t>(i));
    if (!(args.inputs[i].shape == expected) || args.inputs[i].dtype != whole.dtype)
      throw InvalidArgument("{}: slice {} is {}, expected shape {}", args.op,
                            attrs.first + static_cast<std::int64_t>(i), args.inputs[i].str(),
                            expected.str());
  }
  return {whole};
}

// Where nothing flows back there are zeros.
std::vector<Tensor> defined(const GradientArgs& args) {
  std::vector<Tensor> grads(args.output_grads.begin(), args.output_grads.end());
  for (std::size_t i = 0; i < grads.size(); ++i)
    if (!grads[i].defined()) {
      const Tensor& y = args.outputs[i];
      grads[i] = zeros(y.shape(), y.dtype(), y.device());
    }
  return grads;
}

std::vector<Tensor> spread_gradient(const GradientArgs& args) {
  return {apply(slice_sum_op(), defined(args), args.attrs)[0]};
}
std::vector<Tensor> sum_gradient(const GradientArgs& args) {
  return apply(slice_spread_op(), {&args.grad(), 1}, args.attrs);
}
std::vector<Tensor> split_gradient(const GradientArgs& args) {
  return {apply(slice_gather_op(), defined(args), args.attrs)[0]};
}
std::vector<Tensor> gather_gradient(const GradientArgs& args) {
  return apply(slice_split_op(), {&args.grad(), 1}, args.attrs);
}

constexpr ArgumentDoc kWhole[] = {{"x", "the same for all slices"}};
constexpr ArgumentDoc kParts[] = {{"parts", "one of each slice", Presence::repeated}};
constexpr OpDocs kSpreadDocs{"x for each slice to read.", kWhole, kParts};
constexpr OpDocs kSumDocs{"The sum over slices, by the canonical tree.", kParts, kWhole};
constexpr OpDocs kMaxDocs{"The largest over slices.", kParts, kWhole};
constexpr OpDocs kSplitDocs{"Each slice's part of x.", kWhole, kParts};
constexpr OpDocs kGatherDocs{"What the slices' parts are of.", kParts, kWhole};

Attrs attrs_for(std::int64_t slices, const SliceCut& cut = {}) {
  return Attrs::of(SliceTransferAttrs{slices, 0, slices, cut.axis, cut.groups, cut.bounds});
}

}  // namespace

Shape SliceCut::shape_of(const Shape& whole, std::int64_t slice) const {
  Shape shape = whole;
  shape[axis] = extent(slice);
  return shape;
}

Ints even_bounds(std::int64_t units, std::int64_t slices) {
  Ints bounds{0};
  for (std::int64_t k = 0; k < slices; ++k)
    bounds.push_back(bounds.back() + units / slices + (k < units % slices ? 1 : 0));
  return bounds;
}

const OpDef& slice_spread_op() {
  static const OpDef op{.name = "slice_spread",
                        .docs = kSpreadDocs,
                        .schema = attr_schema<SliceTransferAttrs>(),
                        .infer = infer_spread,
                        .gradient = spread_gradient,
                        .cpu = kernels::slice_spread_kernels()};
  return op;
}

const OpDef& slice_sum_op() {
  static const OpDef op{.name = "slice_sum",
                        .docs = kSumDocs,
                        .max_inputs = -1,
                        .schema = attr_schema<SliceTransferAttrs>(),
                        .infer = infer_combined,
                        .gradient = sum_gradient,
                        .cpu = kernels::slice_sum_kernels()};
  return op;
}

const OpDef& slice_max_op() {
  static const OpDef op{.name = "slice_max",
                        .docs = kMaxDocs,
                        .max_inputs = -1,
                        .schema = attr_schema<SliceTransferAttrs>(),
                        .infer = infer_combined,
                        .cpu = kernels::slice_max_kernels()};
  return op;
}

const OpDef& slice_split_op() {
  static const OpDef op{.name = "slice_split",
                        .docs = kSplitDocs,
                        .schema = attr_schema<SliceTransferAttrs>(),
                        .infer = infer_split,
                        .gradient = split_gradient,
                        .cpu = kernels::slice_split_kernels()};
  return op;
}

const OpDef& slice_gather_op() {
  static const OpDef op{.name = "slice_gather",
                        .docs = kGatherDocs,
                        .max_inputs = -1,
                        .schema = attr_schema<SliceTransferAttrs>(),
                        .infer = infer_gather,
                        .gradient = gather_gradient,
                        .cpu = kernels::slice_gather_kernels()};
  return op;
}

bool ends_slices(const OpDef& op) {
  return &op == &slice_sum_op() || &op == &slice_max_op() || &op == &slice_gather_op();
}

bool is_slice_transfer(const OpDef& op) {
  return ends_slices(op) || &op == &slice_spread_op() || &op == &slice_split_op();
}

std::vector<Tensor> slice_spread(const Tensor& x, std::int64_t slices) {
  return apply(slice_spread_op(), {&x, 1}, attrs_for(slices));
}
Tensor slice_sum(const std::vector<Tensor>& parts) {
  return apply(slice_sum_op(), parts, attrs_for(std::ssize(parts)))[0];
}
Tensor slice_max(const std::vector<Tensor>& parts) {
  return apply(slice_max_op(), parts, attrs_for(std::ssize(parts)))[0];
}
std::vector<Tensor> slice_split(const Tensor& x, const SliceCut& cut) {
  return apply(slice_split_op(), {&x, 1}, attrs_for(cut.slices(), cut));
}
Tensor slice_gather(const std::vector<Tensor>& parts, const SliceCut& cut) {
  return apply(slice_gather_op(), parts, attrs_for(cut.slices(), cut))[0];
}

SliceMeetingScope::SliceMeetingScope(SliceMeeting& meeting) {
  check(meeting_of_thread == nullptr, "a thread meets the slices of one step at a time");
  meeting_of_thread = &meeting;
}

SliceMeetingScope::~SliceMeetingScope() { meeting_of_thread = nullptr; }

SliceMeeting& SliceMeetingScope::current() {
  check(meeting_of_thread != nullptr, "some of the slices are elsewhere, and nobody meets them");
  return *meeting_of_thread;
}

}  // namespace lockstep
