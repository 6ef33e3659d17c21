// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/pool.h"

#include <algorithm>

#include "lockstep/ops/cpu/pool.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/pool_attrs.h"
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
  return full;
}

PoolWindow check_window(const char* op, const PoolWindow& window, std::size_t spatial) {
  if (window.kernel.empty())
    throw InvalidArgument("{}: kernel has 0 entries, expected 1 or {}", op, spatial);
  check_spatial_list(op, "kernel", window.kernel, spatial, 1, 1);
  check_spatial_list(op, "stride", window.stride, spatial, 1, 1);
  check_spatial_list(op, "padding", window.padding, spatial, 0, 0);
  PoolWindow full = full_window(window, spatial);
  for (std::size_t i = 0; i < spatial; ++i)
    if (full.padding[i] >= full.kernel[i])
      throw InvalidArgument("{}: padding is {} along axis {}, expected less than kernel {}", op,
                            full.padding[i], i + 2, full.kernel[i]);
  return full;
}

// Rounding up adds a window only where it begins inside the input or the padding before it.
int64_t output_size(const PoolWindow& window, std::size_t axis, int64_t input) {
  const int64_t stride = window.stride[axis];
  const int64_t room = input + 2 * window.padding[axis] - window.kernel[axis];
  if (!window.ceil_mode) return room / stride + 1;
  const int64_t size = (room + stride - 1) / stride + 1;
  return (size - 1) * stride >= input + window.padding[axis] ? size - 1 : size;
}

Ints slide(const char* op, const PoolWindow& window, const Ints& input) {
  Ints output;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const int64_t padded = input[i] + 2 * window.padding[i];
    if (window.kernel[i] > padded)
      throw InvalidArgument("{}: kernel spans {} along axis {}, padded input has {}", op,
                            window.kernel[i], i + 2, padded);
    output.push_back(output_size(window, i, input[i]));
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

Infos infer_avg_pool(const InferArgs& args) {
  return {infer_pool(args.op, args.inputs[0], args.attrs.as<PoolAttrs>())};
}

Infos infer_avg_pool_backward(const InferArgs& args) {
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

const OpDef& max_pool_op() {
  static const OpDef op{.name = "max_pool",
                        .schema = attr_schema<PoolAttrs>(),
                        .infer = infer_max_pool,
                        .gradient = gradient_max_pool,
                        .cpu = kernels::max_pool()};
  return op;
}

const OpDef& max_pool_backward_op() {
  static const OpDef op{.name = "max_pool_backward",
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
                        .schema = attr_schema<PoolAttrs>(),
                        .infer = infer_avg_pool,
                        .gradient = gradient_avg_pool,
                        .cpu = kernels::avg_pool()};
  return op;
}

const OpDef& avg_pool_backward_op() {
  static const OpDef op{.name = "avg_pool_backward",
                        .schema = attr_schema<PoolBackwardAttrs>(),
                        .infer = infer_avg_pool_backward,
                        .gradient = gradient_avg_pool_backward,
                        .cpu = kernels::avg_pool_backward()};
  return op;
}

const OpDef& adaptive_avg_pool_op() {
  static const OpDef op{.name = "adaptive_avg_pool",
                        .schema = attr_schema<AdaptivePoolAttrs>(),
                        .infer = infer_adaptive_avg_pool,
                        .gradient = gradient_adaptive_avg_pool,
                        .cpu = kernels::adaptive_avg_pool()};
  return op;
}

const OpDef& adaptive_avg_pool_backward_op() {
  static const OpDef op{.name = "adaptive_avg_pool_backward",
                        .schema = attr_schema<AdaptivePoolBackwardAttrs>(),
                        .infer = infer_adaptive_avg_pool_backward,
                        .gradient = gradient_adaptive_avg_pool_backward,
                        .cpu = kernels::adaptive_avg_pool_backward()};
  return op;
}

Attrs attrs_of(const PoolOptions& options) {
  return Attrs::of(PoolAttrs{{options.kernel, options.stride, options.padding, options.ceil_mode,
                              options.count_include_pad}});
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
    const int64_t size = input[axis], pad = full.padding[i];
    kernel[axis] = full.kernel[i];
    for (int64_t o = 0; o < output[axis]; ++o) {
      const int64_t start = o * full.stride[i] - pad, end = start + full.kernel[i];
      const int64_t first = std::max<int64_t>(start, 0), last = std::min(end, size);
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
  PoolOptions options;
  options.kernel = spatial_of(x.shape());
  const Ints output = spatial_list(output_size, options.kernel.size(), 1);
  for (std::size_t i = 0; i < output.size(); ++i) options.kernel[i] /= output[i];
  return detail::named("adaptive_avg_pool", [&] { return avg_pool(x, options); });
}

namespace families {

Family pool() {
  return {&max_pool_op(),
          &max_pool_backward_op(),
          &max_pool_gather_op(),
          &avg_pool_op(),
          &avg_pool_backward_op(),
          &adaptive_avg_pool_op(),
          &adaptive_avg_pool_backward_op()};
}

}  // namespace families
}  // namespace lockstep
