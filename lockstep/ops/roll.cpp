// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/detail/shape_defs.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/shape_attrs.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/tensor/copy.h"

namespace lockstep {
namespace {

// The shape that is rolled, and by how much along each of its axes: from 0 to below its size.
struct Rolled {
  Shape shape;
  Dims shifts;
};

Rolled resolve_roll(const char* op, const Shape& x, const RollAttrs& attrs) {
  const bool flat = attrs.axes.empty();
  if (attrs.shifts.size() != (flat ? 1 : attrs.axes.size()))
    throw InvalidArgument("{}: {} shifts for {}", op, attrs.shifts.size(),
                          flat ? "all axes as one" : fmt::format("{} axes", attrs.axes.size()));
  Rolled rolled{flat ? Shape{x.numel()} : x, {}};
  rolled.shifts = Dims::filled(rolled.shape.rank(), 0);
  for (std::size_t i = 0; i < attrs.shifts.size(); ++i) {
    const int axis = flat ? 0 : normalize_axis(op, attrs.axes[i], x.rank());
    const std::int64_t size = rolled.shape[axis];
    if (size == 0) continue;
    const std::int64_t sum = rolled.shifts[axis] + attrs.shifts[i] % size;
    rolled.shifts[axis] = ((sum % size) + size) % size;
  }
  return rolled;
}

Infos infer_roll(const InferArgs& args) {
  resolve_roll(args.op, args.inputs[0].shape, args.attrs.as<RollAttrs>());
  return {args.inputs[0]};
}

std::vector<Tensor> roll_gradient(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<RollAttrs>();
  const Rolled rolled = resolve_roll("roll", args.inputs[0].shape(), attrs);
  Ints back, axes;
  for (int axis = 0; axis < rolled.shape.rank(); ++axis) {
    back.push_back(-rolled.shifts[axis]);
    axes.push_back(axis);
  }
  if (attrs.axes.empty()) axes.clear();
  return {roll(args.grad(), back, axes)};
}

// From `axis` on: the part that stays in, and the part that comes back at the other end.
void copy_rolled(const Rolled& rolled, int axis, Shape part, StridedPointer from,
                 StridedPointer to) {
  if (axis == rolled.shape.rank()) return copy_strided(part, from, to);
  const std::int64_t size = rolled.shape[axis], shift = rolled.shifts[axis];
  const auto item = static_cast<std::int64_t>(item_size(from.dtype));
  const auto moved = [&](StridedPointer p, std::int64_t by) {
    p.data += by * p.strides[axis] * item;
    return p;
  };
  part[axis] = size - shift;
  copy_rolled(rolled, axis + 1, part, from, moved(to, shift));
  if (shift == 0) return;
  part[axis] = shift;
  copy_rolled(rolled, axis + 1, part, moved(from, size - shift), to);
}

void run_roll(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const TensorView& out = call.outputs[0];
  const Rolled rolled = resolve_roll("roll", x.shape, call.attrs.as<RollAttrs>());
  const Strides strides = contiguous_strides(rolled.shape);
  copy_rolled(rolled, 0, rolled.shape, {x.data, strides, x.dtype}, {out.data, strides, out.dtype});
}

constexpr ArgumentDoc kX[] = {{"x", "any tensor"}};
constexpr ArgumentDoc kY[] = {{"y", "of x's shape"}};
constexpr OpDocs kRollDocs{
    "Moves elements along axes; those that leave at one end come back in at the other.", kX, kY};
constexpr KernelCandidate kCopy[] = {{.name = "copy", .dtypes = kAllTypes, .direct = run_roll}};

}  // namespace

namespace detail {

const OpDef& roll_op() {
  static const OpDef op{.name = "roll",
                        .docs = kRollDocs,
                        .schema = attr_schema<RollAttrs>(),
                        .infer = infer_roll,
                        .gradient = roll_gradient,
                        .cpu = kCopy};
  return op;
}

}  // namespace detail

Tensor roll(const Tensor& x, const Ints& shifts, const Ints& axes) {
  return apply_one(detail::roll_op(), {x}, Attrs::of(RollAttrs{shifts, axes}));
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors) {
  Shape shape;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    detail::check_defined("meshgrid", vectors[i], i);
    if (vectors[i].rank() != 1)
      throw InvalidArgument("meshgrid: input {} has shape {}, expected one axis", i,
                            vectors[i].shape().str());
    shape.push_back(vectors[i].numel());
  }
  std::vector<Tensor> grid;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    Ints own(vectors.size(), 1);
    own[i] = vectors[i].numel();
    grid.push_back(expand(reshape(vectors[i], own), shape));
  }
  return grid;
}

}  // namespace lockstep
