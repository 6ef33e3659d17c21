// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/sort.h"

#include "lockstep/ops/cpu/sort.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/index_attrs.h"
#include "lockstep/ops/index_ops.h"
#include "lockstep/ops/reduce_attrs.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep {
namespace {

Infos values_and_positions(const TensorInfo& x, const Shape& shape) {
  return {{shape, x.dtype, x.device}, {shape, DType::int64, x.device}};
}

// Each element goes back to where it came from; no position occurs twice.
template <class A>
std::vector<Tensor> gradient_by_position(const GradientArgs& args) {
  if (!args.grad()) return {{}};
  return {scatter_add(zeros_like(args.inputs[0]), args.outputs[1], args.grad(),
                      args.attrs.as<A>().axis)};
}

// Values, and the positions that its gradient needs.
Infos infer_sort(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  normalize_axis(args.op, args.attrs.as<SortAttrs>().axis, x.shape.rank());
  return values_and_positions(x, x.shape);
}

constexpr ArgumentDoc kSorted[] = {{"x", "any tensor"}};
constexpr ArgumentDoc kSortOutputs[] = {{"values", "the elements in order"},
                                        {"indices", "int64: where along the axis each one was"}};
constexpr ArgumentDoc kOrder[] = {{"indices", "int64, of x's shape"}};
constexpr OpDocs kSortDocs{
    "The elements along an axis in order; equals stay in theirs, NaN is above every number.",
    kSorted, kSortOutputs};
constexpr OpDocs kArgsortDocs{
    "The positions that put the elements along an axis in order, as sort does.", kSorted, kOrder};
constexpr OpDocs kTopkDocs{"The k largest (or smallest) elements along an axis, in order.", kSorted,
                           kSortOutputs};
constexpr ArgumentDoc kMedianOutputs[] = {{"values", "the middle elements"},
                                          {"indices", "int64: where along the axis each one is"}};
constexpr OpDocs kMedianDocs{
    "The element in the middle along an axis, the lower of two; the first NaN where there is one.",
    kSorted, kMedianOutputs};

const OpDef& sort_op() {
  static const OpDef op{.name = "sort",
                        .docs = kSortDocs,
                        .schema = attr_schema<SortAttrs>(),
                        .infer = infer_sort,
                        .gradient = gradient_by_position<SortAttrs>,
                        .cpu = kernels::sort()};
  return op;
}

Infos infer_argsort(const InferArgs& args) { return {infer_sort(args)[1]}; }

const OpDef& argsort_op() {
  static const OpDef op{.name = "argsort",
                        .docs = kArgsortDocs,
                        .schema = attr_schema<SortAttrs>(),
                        .infer = infer_argsort,
                        .cpu = kernels::argsort()};
  return op;
}

Infos infer_topk(const InferArgs& args) {
  const auto& a = args.attrs.as<TopkAttrs>();
  const TensorInfo& x = args.inputs[0];
  const int axis = normalize_axis(args.op, a.axis, x.shape.rank());
  if (a.k < 0 || a.k > x.shape[axis])
    throw InvalidArgument("{}: k is {}, axis {} has size {}", args.op, a.k, axis, x.shape[axis]);
  Shape shape = x.shape;
  shape[axis] = a.k;
  return values_and_positions(x, shape);
}

const OpDef& topk_op() {
  static const OpDef op{.name = "topk",
                        .docs = kTopkDocs,
                        .schema = attr_schema<TopkAttrs>(),
                        .infer = infer_topk,
                        .gradient = gradient_by_position<TopkAttrs>,
                        .cpu = kernels::topk()};
  return op;
}

Infos infer_median(const InferArgs& args) {
  const auto& a = args.attrs.as<ArgAttrs>();
  const TensorInfo& x = args.inputs[0];
  const int axis = normalize_axis(args.op, a.axis, x.shape.rank());
  if (x.shape[axis] == 0)
    throw InvalidArgument("{}: axis {} of shape {} has no elements", args.op, axis, x.shape.str());
  Shape shape = x.shape;
  shape[axis] = 1;
  if (!a.keepdims) shape.erase(axis);
  return values_and_positions(x, shape);
}

std::vector<Tensor> median_gradient(const GradientArgs& args) {
  if (!args.grad()) return {{}};
  const auto& a = args.attrs.as<ArgAttrs>();
  const Tensor& x = args.inputs[0];
  const int axis = normalize_axis("median", a.axis, x.rank());
  const auto along_axis = [&](const Tensor& y) { return a.keepdims ? y : expand_dims(y, axis); };
  return {scatter_add(zeros_like(x), along_axis(args.outputs[1]), along_axis(args.grad()), axis)};
}

const OpDef& median_op() {
  static const OpDef op{.name = "median",
                        .docs = kMedianDocs,
                        .schema = attr_schema<ArgAttrs>(),
                        .infer = infer_median,
                        .gradient = median_gradient,
                        .cpu = kernels::median()};
  return op;
}

}  // namespace

Tensor sort(const Tensor& x, int axis, bool descending) {
  return apply_one(sort_op(), {x}, Attrs::of(SortAttrs{axis, descending}));
}

Tensor argsort(const Tensor& x, int axis, bool descending) {
  return apply_one(argsort_op(), {x}, Attrs::of(SortAttrs{axis, descending}));
}

std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int axis, bool largest) {
  const auto found = apply(topk_op(), std::span(&x, 1), Attrs::of(TopkAttrs{k, axis, largest}));
  return {found[0], found[1]};
}

std::pair<Tensor, Tensor> median(const Tensor& x, int axis, bool keepdims) {
  const auto found = apply(median_op(), std::span(&x, 1), Attrs::of(ArgAttrs{axis, keepdims}));
  return {found[0], found[1]};
}

namespace families {

Family sort() { return {&sort_op(), &argsort_op(), &topk_op(), &median_op()}; }

}  // namespace families
}  // namespace lockstep
