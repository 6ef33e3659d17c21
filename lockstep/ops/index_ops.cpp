// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/index_ops.h"

#include <algorithm>

#include "lockstep/ops/cpu/index_ops.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/index_attrs.h"
#include "lockstep/ops/indexing.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/tensor/sizes.h"

namespace lockstep {
namespace {

void check_index_dtype(const char* op, const TensorInfo& index) {
  if (index.dtype != DType::int32 && index.dtype != DType::int64)
    throw InvalidArgument("{}: indices are {}, they must be int32 or int64", op,
                          name_of(index.dtype));
}

void check_floating(const char* op, const TensorInfo& grad) {
  if (!is_floating(grad.dtype))
    throw InvalidArgument("{}: a gradient cannot be {}", op, name_of(grad.dtype));
}

Shape joined(const Shape& a, const Shape& b, const Shape& c) {
  Shape result;
  for (const Shape* part : {&a, &b, &c})
    for (std::int64_t d : *part) result.push_back(d);
  return result;
}

Shape part(const Shape& shape, int first, int last) {
  Shape result;
  for (int i = first; i < last; ++i) result.push_back(shape[i]);
  return result;
}

constexpr ArgumentDoc kEmbedding[] = {{"indices", "int32 or int64"}, {"table", "[V, D]"}};
constexpr ArgumentDoc kEmbeddingOutput[] = {{"y", "indices' shape + [D]"}};
constexpr ArgumentDoc kEmbeddingGrad[] = {{"grad", "the output's gradient"},
                                          {"indices", "as in the forward op"}};
constexpr ArgumentDoc kGradTable[] = {{"grad_table", "[rows, D]"}};
constexpr ArgumentDoc kTake[] = {{"x", "the values"},
                                 {"indices", "int32 or int64; negative ones count from the end"}};
constexpr ArgumentDoc kTakeOutput[] = {{"y", "x's shape with indices' shape in place of the axis"}};
constexpr ArgumentDoc kTakeGrad[] = {{"grad_x", "of x's shape"}};
constexpr ArgumentDoc kGather[] = {
    {"x", "the values"},
    {"index", "int32 or int64, as many axes as x; negative ones count from the end"}};
constexpr ArgumentDoc kGatherOutput[] = {{"y", "of index's shape"}};
constexpr ArgumentDoc kPick[] = {
    {"x", "the values"},
    {"index", "int32 or int64, x's shape without the axis; negative ones count from the end"}};
constexpr ArgumentDoc kPickOutput[] = {{"y", "of index's shape"}};
constexpr ArgumentDoc kScatter[] = {{"x", "the values to add to"},
                                    {"index", "int32 or int64, as many axes as x"},
                                    {"updates", "what is added, of index's shape and x's dtype"}};
constexpr ArgumentDoc kWrite[] = {{"x", "the values to write to"},
                                  {"index", "int32 or int64, as many axes as x"},
                                  {"updates", "what is written, of index's shape and x's dtype"}};
constexpr ArgumentDoc kScatterOutput[] = {{"y", "of x's shape"}};
constexpr ArgumentDoc kClasses[] = {{"indices", "int32 or int64"}};
constexpr ArgumentDoc kOneHotOutput[] = {{"y", "indices' shape + [depth]"}};
constexpr ArgumentDoc kRavel[] = {
    {"indices", "int32 or int64, one for each axis; they broadcast", Presence::repeated}};
constexpr ArgumentDoc kRavelOutput[] = {{"y", "int64"}};
constexpr OpDocs kEmbeddingDocs{"The rows of a table that indices name.", kEmbedding,
                                kEmbeddingOutput};
constexpr OpDocs kEmbeddingBackwardDocs{
    "embedding's gradient: rows named more than once are summed.", kEmbeddingGrad, kGradTable};
constexpr OpDocs kTakeDocs{"The entries of x along an axis that indices name, in their order.",
                           kTake, kTakeOutput};
constexpr OpDocs kTakeBackwardDocs{"take's gradient: entries named more than once are summed.",
                                   kEmbeddingGrad, kTakeGrad};
constexpr OpDocs kGatherDocs{
    "For each element of index, the element of x that it names along the axis.", kGather,
    kGatherOutput};
constexpr OpDocs kScatterWriteDocs{
    "x with updates written at the places that index names along the axis; of several, the last.",
    kWrite, kScatterOutput};
constexpr OpDocs kPickDocs{
    "One element of x for each position along the other axes: the one that index names.", kPick,
    kPickOutput};
constexpr OpDocs kScatterAddDocs{
    "x with updates added at the places that index names along the axis.", kScatter,
    kScatterOutput};
constexpr OpDocs kOneHotDocs{"1 at the class that each index names, 0 at the others.", kClasses,
                             kOneHotOutput};
constexpr OpDocs kRavelIndexDocs{
    "Positions in a row-major array, from one tensor of indices for each axis.", kRavel,
    kRavelOutput};

const OpDef& embedding_backward_op();
const OpDef& take_backward_op();

Infos infer_embedding(const InferArgs& args) {
  const TensorInfo& table = args.inputs[1];
  check_index_dtype(args.op, args.inputs[0]);
  if (table.shape.rank() != 2)
    throw InvalidArgument("{}: the table has shape {}, it must be [rows, width]", args.op,
                          table.shape.str());
  return {{joined(args.inputs[0].shape, {table.shape[1]}, {}), table.dtype, table.device}};
}

std::vector<Tensor> embedding_gradient(const GradientArgs& args) {
  if (!args.needs_grad(1)) return {{}, {}};
  return {{},
          apply_one(embedding_backward_op(), {args.grad(), args.inputs[0]},
                    Attrs::of(EmbeddingBackwardAttrs{args.inputs[1].shape()[0]}))};
}

const OpDef& embedding_op() {
  static const OpDef op{.name = "embedding",
                        .docs = kEmbeddingDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<EmbeddingAttrs>(),
                        .infer = infer_embedding,
                        .gradient = embedding_gradient,
                        .cpu = kernels::embedding()};
  return op;
}

Infos infer_embedding_backward(const InferArgs& args) {
  const TensorInfo& grad = args.inputs[0];
  const TensorInfo& indices = args.inputs[1];
  check_floating(args.op, grad);
  check_index_dtype(args.op, indices);
  const int rank = indices.shape.rank();
  if (grad.shape.rank() != rank + 1 || !(part(grad.shape, 0, rank) == indices.shape))
    throw InvalidArgument("{}: the gradient has shape {}, the indices {}", args.op,
                          grad.shape.str(), indices.shape.str());
  const std::int64_t rows = args.attrs.as<EmbeddingBackwardAttrs>().rows;
  return {{detail::checked_shape(args.op, {rows, grad.shape.back()}), grad.dtype, grad.device}};
}

std::vector<Tensor> embedding_backward_gradient(const GradientArgs& args) {
  if (!args.needs_grad(0)) return {{}, {}};
  return {embedding(args.inputs[1], args.grad()), {}};
}

const OpDef& embedding_backward_op() {
  static const OpDef op{.name = "embedding_backward",
                        .docs = kEmbeddingBackwardDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<EmbeddingBackwardAttrs>(),
                        .infer = infer_embedding_backward,
                        .gradient = embedding_backward_gradient,
                        .cpu = kernels::embedding_backward()};
  return op;
}

Infos infer_take(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  check_index_dtype(args.op, args.inputs[1]);
  const int rank = x.shape.rank();
  const int axis = normalize_axis(args.op, args.attrs.as<AlongAxisAttrs>().axis, rank);
  const Shape shape =
      joined(part(x.shape, 0, axis), args.inputs[1].shape, part(x.shape, axis + 1, rank));
  return {{detail::checked_shape(args.op, shape), x.dtype, x.device}};
}

std::vector<Tensor> take_gradient(const GradientArgs& args) {
  if (!args.needs_grad(0)) return {{}, {}};
  const Shape& shape = args.inputs[0].shape();
  const int axis = normalize_axis("take", args.attrs.as<AlongAxisAttrs>().axis, shape.rank());
  return {apply_one(take_backward_op(), {args.grad(), args.inputs[1]},
                    Attrs::of(TakeBackwardAttrs{axis, shape[axis]})),
          {}};
}

const OpDef& take_op() {
  static const OpDef op{.name = "take",
                        .docs = kTakeDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<AlongAxisAttrs>(),
                        .infer = infer_take,
                        .gradient = take_gradient,
                        .cpu = kernels::take()};
  return op;
}

Infos infer_take_backward(const InferArgs& args) {
  const auto& a = args.attrs.as<TakeBackwardAttrs>();
  const TensorInfo& grad = args.inputs[0];
  const Shape& taken = args.inputs[1].shape;
  check_floating(args.op, grad);
  check_index_dtype(args.op, args.inputs[1]);
  const int end = std::min(std::max(a.axis, 0), kMaxRank) + taken.rank();
  if (a.axis < 0 || a.axis > kMaxRank || end > grad.shape.rank() ||
      !(part(grad.shape, a.axis, end) == taken))
    throw InvalidArgument("{}: the gradient has shape {}, the indices {} along axis {}", args.op,
                          grad.shape.str(), taken.str(), a.axis);
  const Shape shape =
      joined(part(grad.shape, 0, a.axis), {a.size}, part(grad.shape, end, grad.shape.rank()));
  return {{detail::checked_shape(args.op, shape), grad.dtype, grad.device}};
}

std::vector<Tensor> take_backward_gradient(const GradientArgs& args) {
  if (!args.needs_grad(0)) return {{}, {}};
  return {take(args.grad(), args.inputs[1], args.attrs.as<TakeBackwardAttrs>().axis), {}};
}

const OpDef& take_backward_op() {
  static const OpDef op{.name = "take_backward",
                        .docs = kTakeBackwardDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<TakeBackwardAttrs>(),
                        .infer = infer_take_backward,
                        .gradient = take_backward_gradient,
                        .cpu = kernels::take_backward()};
  return op;
}

// An index along `axis` has as many axes as the array and does not reach beyond its other axes.
void check_along_axis(const InferArgs& args, const TensorInfo& x, const TensorInfo& index) {
  check_index_dtype(args.op, index);
  const int axis = normalize_axis(args.op, args.attrs.as<AlongAxisAttrs>().axis, x.shape.rank());
  bool fits = index.shape.rank() == x.shape.rank();
  for (int i = 0; fits && i < x.shape.rank(); ++i) fits = i == axis || index.shape[i] <= x.shape[i];
  if (!fits)
    throw InvalidArgument("{}: an index of shape {} does not fit {} along axis {}", args.op,
                          index.shape.str(), x.shape.str(), axis);
}

Infos infer_gather(const InferArgs& args) {
  check_along_axis(args, args.inputs[0], args.inputs[1]);
  return {{args.inputs[1].shape, args.inputs[0].dtype, args.inputs[0].device}};
}

std::vector<Tensor> gather_gradient(const GradientArgs& args) {
  if (!args.needs_grad(0)) return {{}, {}};
  return {scatter_add(zeros_like(args.inputs[0]), args.inputs[1], args.grad(),
                      args.attrs.as<AlongAxisAttrs>().axis),
          {}};
}

const OpDef& gather_op() {
  static const OpDef op{.name = "gather",
                        .docs = kGatherDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<AlongAxisAttrs>(),
                        .infer = infer_gather,
                        .gradient = gather_gradient,
                        .cpu = kernels::gather()};
  return op;
}

Infos infer_pick(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  check_index_dtype(args.op, args.inputs[1]);
  TensorInfo picked = x;
  picked.shape.erase(normalize_axis(args.op, args.attrs.as<AlongAxisAttrs>().axis, x.shape.rank()));
  if (!(picked.shape == args.inputs[1].shape))
    throw InvalidArgument("{}: the index has shape {}, it must be {} for {}", args.op,
                          args.inputs[1].shape.str(), picked.shape.str(), x.shape.str());
  return {picked};
}

std::vector<Tensor> pick_gradient(const GradientArgs& args) {
  if (!args.needs_grad(0)) return {{}, {}};
  const Tensor& x = args.inputs[0];
  const int axis = normalize_axis("pick", args.attrs.as<AlongAxisAttrs>().axis, x.rank());
  return {scatter_add(zeros_like(x), expand_dims(args.inputs[1], axis),
                      expand_dims(args.grad(), axis), axis),
          {}};
}

const OpDef& pick_op() {
  static const OpDef op{.name = "pick",
                        .docs = kPickDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<AlongAxisAttrs>(),
                        .infer = infer_pick,
                        .gradient = pick_gradient,
                        .cpu = kernels::pick()};
  return op;
}

Infos infer_scatter(const InferArgs& args) {
  const TensorInfo& x = args.inputs[0];
  const TensorInfo& updates = args.inputs[2];
  check_along_axis(args, x, args.inputs[1]);
  if (!(updates.shape == args.inputs[1].shape))
    throw InvalidArgument("{}: updates have shape {}, their index has {}", args.op,
                          updates.shape.str(), args.inputs[1].shape.str());
  if (updates.dtype != x.dtype)
    throw InvalidArgument("{}: updates are {}, the tensor is {}", args.op, name_of(updates.dtype),
                          name_of(x.dtype));
  return {x};
}

Infos infer_scatter_add(const InferArgs& args) {
  Infos infos = infer_scatter(args);
  if (infos[0].dtype == DType::boolean) throw InvalidArgument("{}: cannot add to bool", args.op);
  return infos;
}

std::vector<Tensor> scatter_add_gradient(const GradientArgs& args) {
  std::vector<Tensor> grads(3);
  if (args.needs_grad(0)) grads[0] = args.grad();
  if (args.needs_grad(2))
    grads[2] = gather(args.grad(), args.inputs[1], args.attrs.as<AlongAxisAttrs>().axis);
  return grads;
}

const OpDef& scatter_add_op() {
  static const OpDef op{.name = "scatter_add",
                        .docs = kScatterAddDocs,
                        .min_inputs = 3,
                        .max_inputs = 3,
                        .schema = attr_schema<AlongAxisAttrs>(),
                        .infer = infer_scatter_add,
                        .gradient = scatter_add_gradient,
                        .cpu = kernels::scatter_add()};
  return op;
}

// Which updates were written last at their places: each is numbered, and finds its own number
// there.
Tensor are_last(const Tensor& x, const Tensor& index, int axis) {
  const auto count = static_cast<double>(index.numel());
  const Tensor number =
      reshape(arange(0.0, count, 1.0, DType::int64, index.device()), index.shape().vector());
  const Tensor written =
      scatter(full(x.shape(), 0.0, DType::int64, x.device()), index, number, axis);
  return equal(gather(written, index, axis), number);
}

std::vector<Tensor> scatter_gradient(const GradientArgs& args) {
  const int axis = args.attrs.as<AlongAxisAttrs>().axis;
  const Tensor& index = args.inputs[1];
  const Tensor& g = args.grad();
  std::vector<Tensor> grads(3);
  if (args.needs_grad(0)) grads[0] = scatter(g, index, zeros_like(args.inputs[2]), axis);
  if (args.needs_grad(2)) {
    const Tensor there = gather(g, index, axis);
    grads[2] = where(are_last(args.inputs[0], index, axis), there, zeros_like(there));
  }
  return grads;
}

const OpDef& scatter_op() {
  static const OpDef op{.name = "scatter",
                        .docs = kScatterWriteDocs,
                        .min_inputs = 3,
                        .max_inputs = 3,
                        .schema = attr_schema<AlongAxisAttrs>(),
                        .infer = infer_scatter,
                        .gradient = scatter_gradient,
                        .cpu = kernels::scatter()};
  return op;
}

Infos infer_one_hot(const InferArgs& args) {
  const auto& a = args.attrs.as<OneHotAttrs>();
  check_index_dtype(args.op, args.inputs[0]);
  if (a.depth < 0) throw InvalidArgument("{}: depth {} is negative", args.op, a.depth);
  const Shape shape = joined(args.inputs[0].shape, {a.depth}, {});
  return {{detail::checked_shape(args.op, shape), a.dtype, args.inputs[0].device}};
}

const OpDef& one_hot_op() {
  static const OpDef op{.name = "one_hot",
                        .docs = kOneHotDocs,
                        .schema = attr_schema<OneHotAttrs>(),
                        .infer = infer_one_hot,
                        .cpu = kernels::one_hot()};
  return op;
}

Infos infer_ravel_index(const InferArgs& args) {
  const Ints& dims = args.attrs.as<RavelIndexAttrs>().dims;
  if (dims.size() != args.inputs.size())
    throw InvalidArgument("{}: {} tensors of indices for {} axes", args.op, args.inputs.size(),
                          dims.size());
  detail::checked_shape(args.op, Shape(dims));
  Shape shape;
  for (const TensorInfo& index : args.inputs) {
    check_index_dtype(args.op, index);
    shape = broadcast_shapes(args.op, shape, index.shape);
  }
  return {{shape, DType::int64, args.inputs[0].device}};
}

const OpDef& ravel_index_op() {
  static const OpDef op{.name = "ravel_index",
                        .docs = kRavelIndexDocs,
                        .max_inputs = -1,
                        .schema = attr_schema<RavelIndexAttrs>(),
                        .infer = infer_ravel_index,
                        .cpu = kernels::ravel_index()};
  return op;
}

}  // namespace

Tensor embedding(const Tensor& indices, const Tensor& table) {
  return apply_one(embedding_op(), {indices, table}, Attrs::of(EmbeddingAttrs{}));
}

Tensor take(const Tensor& x, const Tensor& indices, int axis) {
  return apply_one(take_op(), {x, indices}, Attrs::of(AlongAxisAttrs{axis}));
}

Tensor gather(const Tensor& x, const Tensor& index, int axis) {
  return apply_one(gather_op(), {x, index}, Attrs::of(AlongAxisAttrs{axis}));
}

Tensor pick(const Tensor& x, const Tensor& index, int axis) {
  return apply_one(pick_op(), {x, index}, Attrs::of(AlongAxisAttrs{axis}));
}

Tensor scatter_add(const Tensor& x, const Tensor& index, const Tensor& updates, int axis) {
  return apply_one(scatter_add_op(), {x, index, updates}, Attrs::of(AlongAxisAttrs{axis}));
}

Tensor scatter(const Tensor& x, const Tensor& index, const Tensor& updates, int axis) {
  return apply_one(scatter_op(), {x, index, updates}, Attrs::of(AlongAxisAttrs{axis}));
}

Tensor one_hot(const Tensor& indices, std::int64_t depth, DType dtype) {
  return apply_one(one_hot_op(), {indices}, Attrs::of(OneHotAttrs{depth, dtype}));
}

Tensor ravel_index(const std::vector<Tensor>& indices, const Shape& dims) {
  return apply(ravel_index_op(), indices, Attrs::of(RavelIndexAttrs{dims.vector()}))[0];
}

namespace families {

Family index() {
  return {&embedding_op(), &embedding_backward_op(),
          &take_op(),      &take_backward_op(),
          &gather_op(),    &pick_op(),
          &scatter_op(),   &scatter_add_op(),
          &one_hot_op(),   &ravel_index_op()};
}

}  // namespace families
}  // namespace lockstep
