// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/pool.h"

#include <algorithm>
#include <limits>

#include "lockstep/ops/cpu/pool.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/index_ops.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/pool_attrs.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/spatial.h"

namespace lockstep {
namespace {

using std::int64_t;

const OpDef& max_pool_op();
const OpDef& max_pool_backward_op();
const OpDef& max_pool_gather_op();
const OpDef& avg_pool_op();
const OpDef& avg_pool_backward_op();
const OpDef& adaptive_avg_pool_op();
const OpDef& adaptive_avg_pool_backward_op();

Ints spatial_of(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

TensorInfo with_spatial(const TensorInfo& like, const Ints& spatial) {
  TensorInfo info = like;
  info.shape = Shape{like.shape[0], like.shape[1]};
  for (int64_t size : spatial) info.shape.push_back(size);
  return info;
}

PoolWindow full_window(const PoolWindow& window, std::size_t spatial) {
  PoolWindow full = window;
  full.kernel = spatial_list(window.kernel, spatial, 1);
  full.stride = window.stride.empty() ? full.kernel : spatial_list(window.stride, spatial, 1);
  full.padding = spatial_list(window.padding, spatial, 0);
  full.dilation = spatial_list(window.dilation, spatial, 1);
  return full;
}

PoolWindow check_window(const char* op, const PoolWindow& window, std::size_t spatial) {
  if (window.kernel.empty())
    throw InvalidArgument("{}: kernel has 0 entries, expected 1 or {}", op, spatial);
  check_spatial_list(op, "kernel", window.kernel, spatial, 1, 1);
  check_spatial_list(op, "stride", window.stride, spatial, 1, 1);
  check_spatial_list(op, "padding", window.padding, spatial, 0, 0);
  check_spatial_list(op, "dilation", window.dilation, spatial, 1, 1);
  PoolWindow full = full_window(window, spatial);
  for (std::size_t i = 0; i < spatial; ++i)
    if (full.padding[i] >= full.kernel[i])
      throw InvalidArgument("{}: padding is {} along axis {}, expected less than kernel {}", op,
                            full.padding[i], i + 2, full.kernel[i]);
  return full;
}

// From the first to the last element of a window; the largest number there is where it is larger.
int64_t span_of(const PoolWindow& window, std::size_t axis) {
  int64_t span = 0;
  const bool overflow =
      __builtin_mul_overflow(window.dilation[axis], window.kernel[axis] - 1, &span) ||
      __builtin_add_overflow(span, 1, &span);
  return overflow ? std::numeric_limits<int64_t>::max() : span;
}

// Rounding up adds a window only where it begins inside the input or the padding before it.
int64_t output_size(const PoolWindow& window, std::size_t axis, int64_t input) {
  const int64_t stride = window.stride[axis];
  const int64_t room = input + 2 * window.padding[axis] - span_of(window, axis);
  if (!window.ceil_mode) return room / stride + 1;
  const int64_t size = (room + stride - 1) / stride + 1;
  return (size - 1) * stride >= input + window.padding[axis] ? size - 1 : size;
}

// A window's elements may step over a short input, from one padding into the other. Where steps are
// no longer than the input only the last window can; else they are as good as its size, and few
// windows begin before it: padding is less than the kernel, and the kernel spans no more than both.
void check_reach(const char* op, const PoolWindow& window, std::size_t axis, int64_t input,
                 int64_t output) {
  const int64_t step = window.dilation[axis], stride = window.stride[axis];
  const int64_t padding = window.padding[axis];
  if (step == 1) return;
  const auto fail = [&](int64_t number) {
    throw InvalidArgument("{}: window {} along axis {} lies in the padding with every element", op,
                          number, axis + 2);
  };
  if ((output - 1) * stride - padding >= input) fail(output - 1);
  if (step <= input) return;
  const int64_t before = std::min({output, (padding + stride - 1) / stride, step});
  for (int64_t o = 0; o < before; ++o) {
    const int64_t start = o * stride - padding;  // negative
    if ((start % step + step) % step >= input) fail(o);
  }
}

Ints slide(const char* op, const PoolWindow& window, const Ints& input) {
  Ints output;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const int64_t padded = input[i] + 2 * window.padding[i];
    if (span_of(window, i) > padded)
      throw InvalidArgument("{}: kernel spans {} along axis {}, padded input has {}", op,
                            span_of(window, i), i + 2, padded);
    output.push_back(output_size(window, i, input[i]));
    check_reach(op, window, i, input[i], output.back());
  }
  return output;
}

TensorInfo infer_pool(const char* op, const TensorInfo& x, const PoolWindow& window) {
  const std::size_t spatial = check_spatial_input(op, x);
  return with_spatial(x, slide(op, check_window(op, window, spatial), spatial_of(x.shape)));
}

// The input's info, from the gradient of the output.
TensorInfo infer_pool_backward(const char* op, const TensorInfo& dy,
                               const PoolBackwardAttrs& attrs) {
  const std::size_t spatial = check_spatial_input(op, dy);
  const PoolWindow window = check_window(op, attrs, spatial);
  if (attrs.input_size.empty())
    throw InvalidArgument("{}: input_size has 0 entries, expected 1 or {}", op, spatial);
  const Ints input = check_spatial_list(op, "input_size", attrs.input_size, spatial, 1, 1);
  const Ints made = slide(op, window, input);
  if (made != spatial_of(dy.shape))
    throw InvalidArgument("{}: an input of size {} gives an output of size {}, gradient has {}", op,
                          Shape(input).str(), Shape(made).str(), Shape(spatial_of(dy.shape)).str());
  return with_spatial(dy, input);
}

// Wide enough for any position in a window, as oneDNN chooses it.
DType workspace_dtype(const PoolWindow& window, std::size_t spatial) {
  int64_t elements = 1;
  for (int64_t size : spatial_list(window.kernel, spatial, 1))
    elements = std::min<int64_t>(elements * size, 256);
  return elements <= 255 ? DType::uint8 : DType::int32;
}

TensorInfo workspace_info(const TensorInfo& y, const PoolWindow& window) {
  TensorInfo info = y;
  info.dtype = workspace_dtype(window, static_cast<std::size_t>(y.shape.rank()) - 2);
  return info;
}

void check_workspace(const InferArgs& args, const TensorInfo& y, const PoolWindow& window) {
  const TensorInfo expected = workspace_info(y, window);
  if (!(args.inputs[1] == expected))
    throw InvalidArgument("{}: workspace is {}, expected {}", args.op, args.inputs[1].str(),
                          expected.str());
}

Infos infer_max_pool(const InferArgs& args) {
  const auto& attrs = args.attrs.as<PoolAttrs>();
  const TensorInfo y = infer_pool(args.op, args.inputs[0], attrs);
  return {y, workspace_info(y, attrs)};
}

Infos infer_max_pool_backward(const InferArgs& args) {
  const auto& attrs = args.attrs.as<PoolBackwardAttrs>();
  const TensorInfo x = infer_pool_backward(args.op, args.inputs[0], attrs);
  check_workspace(args, args.inputs[0], attrs);
  return {x};
}

Infos infer_max_pool_gather(const InferArgs& args) {
  const auto& attrs = args.attrs.as<PoolAttrs>();
  const TensorInfo y = infer_pool(args.op, args.inputs[0], attrs);
  check_workspace(args, y, attrs);
  return {y};
}

void check_no_dilation(const char* op, const PoolWindow& window) {
  for (const int64_t step : window.dilation)
    if (step != 1) throw InvalidArgument("{}: dilation is {}, expected 1 of an average", op, step);
}

Infos infer_avg_pool(const InferArgs& args) {
  check_no_dilation(args.op, args.attrs.as<PoolAttrs>());
  return {infer_pool(args.op, args.inputs[0], args.attrs.as<PoolAttrs>())};
}

Infos infer_avg_pool_backward(const InferArgs& args) {
  check_no_dilation(args.op, args.attrs.as<PoolBackwardAttrs>());
  return {infer_pool_backward(args.op, args.inputs[0], args.attrs.as<PoolBackwardAttrs>())};
}

Infos infer_adaptive(const char* op, const TensorInfo& input, const char* name, const Ints& size) {
  const std::size_t spatial = check_spatial_input(op, input);
  if (size.empty())
    throw InvalidArgument("{}: {} has 0 entries, expected 1 or {}", op, name, spatial);
  return {with_spatial(input, check_spatial_list(op, name, size, spatial, 1, 1))};
}

Infos infer_adaptive_avg_pool(const InferArgs& args) {
  return infer_adaptive(args.op, args.inputs[0], "output_size",
                        args.attrs.as<AdaptivePoolAttrs>().output_size);
}

Infos infer_adaptive_max_pool(const InferArgs& args) {
  const Infos y = infer_adaptive_avg_pool(args);
  return {y[0], {y[0].shape, DType::int64, y[0].device}};
}

Infos infer_adaptive_avg_pool_backward(const InferArgs& args) {
  return infer_adaptive(args.op, args.inputs[0], "input_size",
                        args.attrs.as<AdaptivePoolBackwardAttrs>().input_size);
}

Attrs backward_attrs(const PoolWindow& window, const Tensor& x) {
  return Attrs::of(PoolBackwardAttrs{window, spatial_of(x.shape())});
}

std::vector<Tensor> gradient_max_pool(const GradientArgs& args) {
  if (!args.grad().defined()) return {Tensor()};
  return {apply_one(max_pool_backward_op(), {args.grad(), args.outputs[1]},
                    backward_attrs(args.attrs.as<PoolAttrs>(), args.inputs[0]))};
}

std::vector<Tensor> gradient_max_pool_backward(const GradientArgs& args) {
  const PoolWindow& window = args.attrs.as<PoolBackwardAttrs>();
  return {
      apply_one(max_pool_gather_op(), {args.grad(), args.inputs[1]}, Attrs::of(PoolAttrs{window})),
      Tensor()};
}

std::vector<Tensor> gradient_max_pool_gather(const GradientArgs& args) {
  return {apply_one(max_pool_backward_op(), {args.grad(), args.inputs[1]},
                    backward_attrs(args.attrs.as<PoolAttrs>(), args.inputs[0])),
          Tensor()};
}

std::vector<Tensor> gradient_avg_pool(const GradientArgs& args) {
  return {apply_one(avg_pool_backward_op(), {args.grad()},
                    backward_attrs(args.attrs.as<PoolAttrs>(), args.inputs[0]))};
}

std::vector<Tensor> gradient_avg_pool_backward(const GradientArgs& args) {
  const PoolWindow& window = args.attrs.as<PoolBackwardAttrs>();
  return {apply_one(avg_pool_op(), {args.grad()}, Attrs::of(PoolAttrs{window}))};
}

std::vector<Tensor> gradient_adaptive_avg_pool(const GradientArgs& args) {
  return {apply_one(adaptive_avg_pool_backward_op(), {args.grad()},
                    Attrs::of(AdaptivePoolBackwardAttrs{spatial_of(args.inputs[0].shape())}))};
}

std::vector<Tensor> gradient_adaptive_avg_pool_backward(const GradientArgs& args) {
  return {apply_one(adaptive_avg_pool_op(), {args.grad()},
                    Attrs::of(AdaptivePoolAttrs{spatial_of(args.inputs[0].shape())}))};
}

// [N, C, spatial...] with the spatial axes as one.
Tensor flat_planes(const Tensor& x) {
  int64_t plane = 1;
  for (const int64_t size : spatial_of(x.shape())) plane *= size;
  return reshape(x, {x.shape(0), x.shape(1), plane});
}

std::vector<Tensor> gradient_adaptive_max_pool(const GradientArgs& args) {
  if (!args.grad().defined()) return {Tensor()};
  const Tensor& x = args.inputs[0];
  const Tensor planes = flat_planes(zeros(x.shape(), x.dtype(), x.device()));
  const Tensor dx = scatter_add(planes, flat_planes(args.outputs[1]), flat_planes(args.grad()), 2);
  return {reshape(dx, {x.shape().begin(), x.shape().end()})};
}

constexpr ArgumentDoc kPooled[] = {{"x", "floating, [N, C, spatial...], 1 to 3 spatial axes"}};
constexpr ArgumentDoc kPoolOutput[] = {{"y", "[N, C, spatial...]"}};
constexpr ArgumentDoc kMaxOutputs[] = {
    {"y", "[N, C, spatial...]"},
    {"workspace", "where in its window each one was, for the backward pass"}};
constexpr ArgumentDoc kMaxGrad[] = {{"grad", "the output's gradient"},
                                    {"workspace", "max_pool's second output"}};
constexpr ArgumentDoc kMaxGather[] = {{"x", "of the shape of max_pool's input"},
                                      {"workspace", "max_pool's second output"}};
constexpr ArgumentDoc kGathered[] = {{"y", "of the shape of max_pool's output"}};
constexpr ArgumentDoc kAvgGrad[] = {{"grad", "the output's gradient"}};
constexpr ArgumentDoc kPoolGrad[] = {{"grad_x", "of the shape of the pool's input"}};
constexpr OpDocs kMaxPoolDocs{
    "The largest element of each window that slides over the spatial axes.", kPooled, kMaxOutputs};
constexpr OpDocs kMaxPoolBackwardDocs{
    "max_pool's gradient: each goes to where the largest element was.", kMaxGrad, kPoolGrad};
constexpr OpDocs kMaxPoolGatherDocs{
    "The elements of x at the places where max_pool found the largest.", kMaxGather, kGathered};
constexpr OpDocs kAvgPoolDocs{"The mean of each window that slides over the spatial axes.", kPooled,
                              kPoolOutput};
constexpr OpDocs kAvgPoolBackwardDocs{
    "avg_pool's gradient: each is shared by the elements of its window.", kAvgGrad, kPoolGrad};
constexpr OpDocs kAdaptiveAvgPoolDocs{
    "The mean of windows as even as they can be, as many as output_size says.", kPooled,
    kPoolOutput};
constexpr ArgumentDoc kAdaptiveMaxOutputs[] = {
    {"y", "[N, C, spatial...]"},
    {"indices", "int64: where in its plane each one was, counted in row-major order"}};
constexpr OpDocs kAdaptiveMaxPoolDocs{
    "The largest element of windows as even as they can be, as many as output_size says.", kPooled,
    kAdaptiveMaxOutputs};
constexpr OpDocs kAdaptiveAvgPoolBackwardDocs{"adaptive_avg_pool's gradient.", kAvgGrad, kPoolGrad};

const OpDef& max_pool_op() {
  static const OpDef op{.name = "max_pool",
                        .docs = kMaxPoolDocs,
                        .schema = attr_schema<PoolAttrs>(),
                        .infer = infer_max_pool,
                        .gradient = gradient_max_pool,
                        .cpu = kernels::max_pool()};
  return op;
}

const OpDef& max_pool_backward_op() {
  static const OpDef op{.name = "max_pool_backward",
                        .docs = kMaxPoolBackwardDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<PoolBackwardAttrs>(),
                        .infer = infer_max_pool_backward,
                        .gradient = gradient_max_pool_backward,
                        .cpu = kernels::max_pool_backward()};
  return op;
}

const OpDef& max_pool_gather_op() {
  static const OpDef op{.name = "max_pool_gather",
                        .docs = kMaxPoolGatherDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<PoolAttrs>(),
                        .infer = infer_max_pool_gather,
                        .gradient = gradient_max_pool_gather,
                        .cpu = kernels::max_pool_gather()};
  return op;
}

const OpDef& avg_pool_op() {
  static const OpDef op{.name = "avg_pool",
                        .docs = kAvgPoolDocs,
                        .schema = attr_schema<PoolAttrs>(),
                        .infer = infer_avg_pool,
                        .gradient = gradient_avg_pool,
                        .cpu = kernels::avg_pool()};
  return op;
}

const OpDef& avg_pool_backward_op() {
  static const OpDef op{.name = "avg_pool_backward",
                        .docs = kAvgPoolBackwardDocs,
                        .schema = attr_schema<PoolBackwardAttrs>(),
                        .infer = infer_avg_pool_backward,
                        .gradient = gradient_avg_pool_backward,
                        .cpu = kernels::avg_pool_backward()};
  return op;
}

const OpDef& adaptive_avg_pool_op() {
  static const OpDef op{.name = "adaptive_avg_pool",
                        .docs = kAdaptiveAvgPoolDocs,
                        .schema = attr_schema<AdaptivePoolAttrs>(),
                        .infer = infer_adaptive_avg_pool,
                        .gradient = gradient_adaptive_avg_pool,
                        .cpu = kernels::adaptive_avg_pool()};
  return op;
}

const OpDef& adaptive_avg_pool_backward_op() {
  static const OpDef op{.name = "adaptive_avg_pool_backward",
                        .docs = kAdaptiveAvgPoolBackwardDocs,
                        .schema = attr_schema<AdaptivePoolBackwardAttrs>(),
                        .infer = infer_adaptive_avg_pool_backward,
                        .gradient = gradient_adaptive_avg_pool_backward,
                        .cpu = kernels::adaptive_avg_pool_backward()};
  return op;
}

const OpDef& adaptive_max_pool_op() {
  static const OpDef op{.name = "adaptive_max_pool",
                        .docs = kAdaptiveMaxPoolDocs,
                        .schema = attr_schema<AdaptivePoolAttrs>(),
                        .infer = infer_adaptive_max_pool,
                        .gradient = gradient_adaptive_max_pool,
                        .cpu = kernels::adaptive_max_pool()};
  return op;
}

Attrs attrs_of(const PoolOptions& options) {
  return Attrs::of(PoolAttrs{{options.kernel, options.stride, options.padding, options.ceil_mode,
                              options.count_include_pad, options.dilation}});
}

// Kernel sizes that cover everything; inference refuses what has no spatial axes.
PoolOptions whole_window(const Tensor& x) {
  PoolOptions options;
  if (x.defined() && x.rank() > 2) options.kernel = spatial_of(x.shape());
  return options;
}

// Whether windows of one size, side by side, do the same as adaptive ones.
bool divides(const Tensor& x, const Ints& output_size) {
  if (!x.defined() || x.rank() < 3 || output_size.empty()) return false;
  const Ints input = spatial_of(x.shape());
  const Ints output = spatial_list(output_size, input.size(), 1);
  if (output.size() != input.size()) return false;
  for (std::size_t i = 0; i < input.size(); ++i)
    if (output[i] < 1 || input[i] < 1 || input[i] % output[i] != 0) return false;
  return true;
}

PoolOptions even_windows(const Tensor& x, const Ints& output_size) {
  PoolOptions options;
  options.kernel = spatial_of(x.shape());
  const Ints output = spatial_list(output_size, options.kernel.size(), 1);
  for (std::size_t i = 0; i < output.size(); ++i) options.kernel[i] /= output[i];
  return options;
}

void set_sizes(PoolProblem& problem, const Shape& x, const Shape& y) {
  const auto skip = static_cast<std::ptrdiff_t>(5 - x.rank());
  std::copy(x.begin() + 2, x.end(), problem.input.begin() + skip);
  std::copy(y.begin() + 2, y.end(), problem.output.begin() + skip);
}

}  // namespace

PoolProblem::PoolProblem(const Shape& x, const Shape& y, const PoolWindow& window)
    : planes(x[0] * x[1]) {
  set_sizes(*this, x, y);
  const std::size_t spatial = static_cast<std::size_t>(x.rank()) - 2, skip = 3 - spatial;
  const PoolWindow full = full_window(window, spatial);
  for (std::size_t i = 0; i < skip; ++i) windows[i] = {{0, 1, 0, 1}};
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::size_t axis = i + skip;
    const int64_t size = input[axis], pad = full.padding[i], step = full.dilation[i];
    kernel[axis] = full.kernel[i];
    dilation[axis] = step;
    for (int64_t o = 0; o < output[axis]; ++o) {
      const int64_t start = o * full.stride[i] - pad, end = start + span_of(full, i);
      const int64_t first = start < 0 ? start + (-start + step - 1) / step * step : start;
      const int64_t last = std::min(end, size);
      const int64_t counted = std::min(end, size + pad) - start;
      windows[axis].push_back(
          {first, last, start, window.count_include_pad ? counted : last - first});
    }
  }
}

PoolProblem::PoolProblem(const Shape& x, const Shape& y) : planes(x[0] * x[1]) {
  set_sizes(*this, x, y);
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (int64_t o = 0; o < output[axis]; ++o) {
      const int64_t first = o * input[axis] / output[axis];
      const int64_t last = ((o + 1) * input[axis] + output[axis] - 1) / output[axis];
      windows[axis].push_back({first, last, first, last - first});
    }
}

Tensor max_pool(const Tensor& x, const PoolOptions& options) {
  return apply_one(max_pool_op(), {x}, attrs_of(options));
}

Tensor avg_pool(const Tensor& x, const PoolOptions& options) {
  return apply_one(avg_pool_op(), {x}, attrs_of(options));
}

Tensor global_avg_pool(const Tensor& x) {
  return detail::named("global_avg_pool", [&] { return avg_pool(x, whole_window(x)); });
}

Tensor global_max_pool(const Tensor& x) {
  return detail::named("global_max_pool", [&] { return max_pool(x, whole_window(x)); });
}

Tensor adaptive_avg_pool(const Tensor& x, const Ints& output_size) {
  if (!divides(x, output_size))
    return apply_one(adaptive_avg_pool_op(), {x}, Attrs::of(AdaptivePoolAttrs{output_size}));
  return detail::named("adaptive_avg_pool",
                       [&] { return avg_pool(x, even_windows(x, output_size)); });
}

Tensor adaptive_max_pool(const Tensor& x, const Ints& output_size) {
  if (!divides(x, output_size))
    return apply_one(adaptive_max_pool_op(), {x}, Attrs::of(AdaptivePoolAttrs{output_size}));
  return detail::named("adaptive_max_pool",
                       [&] { return max_pool(x, even_windows(x, output_size)); });
}

namespace families {

Family pool() {
  return {&max_pool_op(),
          &max_pool_backward_op(),
          &max_pool_gather_op(),
          &avg_pool_op(),
          &avg_pool_backward_op(),
          &adaptive_avg_pool_op(),
          &adaptive_avg_pool_backward_op(),
          &adaptive_max_pool_op()};
}

}  // namespace families
}  // namespace lockstep
