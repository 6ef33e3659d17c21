// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/resample.h"

#include <algorithm>
#include <cmath>

#include "lockstep/ops/cpu/resample.h"
#include "lockstep/ops/detail/grid_corners.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/families.h"
#include "lockstep/ops/resample_attrs.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/spatial.h"

namespace lockstep {

namespace {

AxisTap scaled_tap(const std::string& mode, double scale, std::int64_t input, double output) {
  const auto last = static_cast<double>(input - 1);
  if (mode != "linear") {
    const double place = (mode == "nearest" ? output : output + 0.5) / scale;
    const auto low = static_cast<std::int64_t>(std::min(std::floor(place), last));
    return {low, low, 0.0};
  }
  const double place = std::clamp((output + 0.5) / scale - 0.5, 0.0, last);
  const auto low = static_cast<std::int64_t>(place);
  return {low, std::min(low + 1, input - 1), place - static_cast<double>(low)};
}

}  // namespace

bool uses_scale(const std::string& mode, bool align_corners, double scale, std::int64_t input,
                std::int64_t output) {
  if (mode == "linear" && input == output) return false;
  return scale > 0.0 && !align_corners &&
         static_cast<double>(input) * scale != static_cast<double>(output);
}

std::vector<AxisTap> axis_taps(const std::string& mode, bool align_corners, double scale,
                               std::int64_t input, std::int64_t output) {
  std::vector<AxisTap> taps;
  const bool is_scaled = uses_scale(mode, align_corners, scale, input, output);
  const auto in = static_cast<double>(input), out = static_cast<double>(output);
  for (std::int64_t o = 0; o < output; ++o) {
    const auto at = static_cast<double>(o);
    if (is_scaled) {
      taps.push_back(scaled_tap(mode, scale, input, at));
      continue;
    }
    if (mode != "linear") {
      // Integers, so that no rounding moves a place to its neighbour.
      const std::int64_t low =
          mode == "nearest" ? o * input / output : (2 * o + 1) * input / (2 * output);
      taps.push_back({low, low, 0.0});
      continue;
    }
    const double place = align_corners ? (output > 1 ? at * (in - 1) / (out - 1) : 0.0)
                                       : std::max(0.0, (at + 0.5) * in / out - 0.5);
    const std::int64_t low = std::min(static_cast<std::int64_t>(place), input - 1);
    taps.push_back({low, std::min(low + 1, input - 1),
                    std::clamp(place - static_cast<double>(low), 0.0, 1.0)});
  }
  return taps;
}

namespace {

using std::int64_t;

const OpDef& interpolate_op();
const OpDef& interpolate_backward_op();
const OpDef& grid_sample_backward_op();

Ints spatial_of(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

TensorInfo with_spatial(const TensorInfo& like, const Ints& spatial) {
  TensorInfo info = like;
  info.shape = Shape{like.shape[0], like.shape[1]};
  for (const int64_t size : spatial) info.shape.push_back(size);
  return info;
}

void check_mode(const char* op, const std::string& mode, bool align_corners, double scale) {
  if (mode != "nearest" && mode != "nearest_exact" && mode != "linear")
    throw InvalidArgument("{}: mode is '{}', expected nearest, nearest_exact or linear", op, mode);
  if (align_corners && mode != "linear")
    throw InvalidArgument("{}: align_corners with mode '{}', expected linear", op, mode);
  if (!(scale >= 0.0) || !std::isfinite(scale))
    throw InvalidArgument("{}: scale is {}, expected more than 0, or 0 for none", op, scale);
}

Infos infer_sizes(const char* op, const TensorInfo& input, const char* name, const Ints& size) {
  const std::size_t spatial = check_spatial_input(op, input);
  if (size.empty())
    throw InvalidArgument("{}: {} has 0 entries, expected 1 or {}", op, name, spatial);
  return {with_spatial(input, check_spatial_list(op, name, size, spatial, 1, 1))};
}

Infos infer_interpolate(const InferArgs& args) {
  const auto& attrs = args.attrs.as<InterpolateAttrs>();
  check_mode(args.op, attrs.mode, attrs.align_corners, attrs.scale);
  return infer_sizes(args.op, args.inputs[0], "size", attrs.size);
}

Infos infer_interpolate_backward(const InferArgs& args) {
  const auto& attrs = args.attrs.as<InterpolateBackwardAttrs>();
  check_mode(args.op, attrs.mode, attrs.align_corners, attrs.scale);
  return infer_sizes(args.op, args.inputs[0], "input_size", attrs.input_size);
}

std::vector<Tensor> gradient_interpolate(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<InterpolateAttrs>();
  return {
      apply_one(interpolate_backward_op(), {args.grad()},
                Attrs::of(InterpolateBackwardAttrs{spatial_of(args.inputs[0].shape()), attrs.mode,
                                                   attrs.align_corners, attrs.scale}))};
}

std::vector<Tensor> gradient_interpolate_backward(const GradientArgs& args) {
  const auto& attrs = args.attrs.as<InterpolateBackwardAttrs>();
  return {apply_one(interpolate_op(), {args.grad()},
                    Attrs::of(InterpolateAttrs{spatial_of(args.inputs[0].shape()), attrs.mode,
                                               attrs.align_corners, attrs.scale}))};
}

TensorInfo check_grid_sample(const char* op, const TensorInfo& x, const TensorInfo& grid,
                             const GridSampleAttrs& attrs) {
  if (attrs.mode != "bilinear" && attrs.mode != "nearest")
    throw InvalidArgument("{}: mode is '{}', expected bilinear or nearest", op, attrs.mode);
  if (attrs.padding != "zeros" && attrs.padding != "border" && attrs.padding != "reflection")
    throw InvalidArgument("{}: padding is '{}', expected zeros, border or reflection", op,
                          attrs.padding);
  if (x.shape.rank() != 4)
    throw InvalidArgument("{}: x has shape {}, expected [N, C, H, W]", op, x.shape.str());
  check_spatial_input(op, x);
  if (x.shape[2] * x.shape[3] > kMostSpatial)
    throw InvalidArgument("{}: x has shape {}, expected planes of at most {} elements", op,
                          x.shape.str(), kMostSpatial);
  const Shape& places = grid.shape;
  if (places.rank() != 4 || places[0] != x.shape[0] || places[3] != 2)
    throw InvalidArgument("{}: grid has shape {}, expected [{}, H', W', 2]", op, places.str(),
                          x.shape[0]);
  if (grid.dtype != x.dtype)
    throw InvalidArgument("{}: grid is {}, expected {} as x", op, name_of(grid.dtype),
                          name_of(x.dtype));
  return with_spatial(x, {places[1], places[2]});
}

Infos infer_grid_sample(const InferArgs& args) {
  return {
      check_grid_sample(args.op, args.inputs[0], args.inputs[1], args.attrs.as<GridSampleAttrs>())};
}

Infos infer_grid_sample_backward(const InferArgs& args) {
  const TensorInfo &grad = args.inputs[0], &x = args.inputs[1], &grid = args.inputs[2];
  const TensorInfo y = check_grid_sample(args.op, x, grid, args.attrs.as<GridSampleAttrs>());
  if (!(grad == y))
    throw InvalidArgument("{}: gradient is {}, expected {}", args.op, grad.str(), y.str());
  return {x, grid};
}

std::vector<Tensor> gradient_grid_sample(const GradientArgs& args) {
  const std::vector<Tensor> inputs{args.grad(), args.inputs[0], args.inputs[1]};
  return apply(grid_sample_backward_op(), inputs, args.attrs);
}

constexpr ArgumentDoc kInput[] = {{"x", "floating, [N, C, spatial...], 1 to 3 spatial axes"}};
constexpr ArgumentDoc kResized[] = {{"y", "[N, C, size...]"}};
constexpr ArgumentDoc kResizedGrad[] = {{"grad", "the output's gradient"}};
constexpr ArgumentDoc kInputGrad[] = {{"grad_x", "of the shape of interpolate's input"}};
constexpr ArgumentDoc kSampled[] = {
    {"x", "floating, [N, C, H, W]"},
    {"grid", "[N, H', W', 2]: places (x, y), -1 to 1 from left to right and from top to bottom"}};
constexpr ArgumentDoc kSamples[] = {{"y", "[N, C, H', W']"}};
constexpr ArgumentDoc kSampledGrad[] = {{"grad", "the output's gradient"},
                                        {"x", "grid_sample's first input"},
                                        {"grid", "grid_sample's second input"}};
constexpr ArgumentDoc kSampledGradOutputs[] = {{"grad_x", "of x's shape"},
                                               {"grad_grid", "of grid's shape"}};
constexpr OpDocs kInterpolateDocs{
    "x on a finer or coarser lattice: spatial axes stretched to given sizes.", kInput, kResized};
constexpr OpDocs kInterpolateBackwardDocs{
    "interpolate's gradient: each is shared by the elements that it was made of.", kResizedGrad,
    kInputGrad};
constexpr OpDocs kGridSampleDocs{"The values of x at places that a grid names.", kSampled,
                                 kSamples};
constexpr OpDocs kGridSampleBackwardDocs{"grid_sample's gradients.", kSampledGrad,
                                         kSampledGradOutputs};

const OpDef& interpolate_op() {
  static const OpDef op{.name = "interpolate",
                        .docs = kInterpolateDocs,
                        .schema = attr_schema<InterpolateAttrs>(),
                        .infer = infer_interpolate,
                        .gradient = gradient_interpolate,
                        .cpu = kernels::interpolate()};
  return op;
}

const OpDef& interpolate_backward_op() {
  static const OpDef op{.name = "interpolate_backward",
                        .docs = kInterpolateBackwardDocs,
                        .schema = attr_schema<InterpolateBackwardAttrs>(),
                        .infer = infer_interpolate_backward,
                        .gradient = gradient_interpolate_backward,
                        .cpu = kernels::interpolate_backward()};
  return op;
}

const OpDef& grid_sample_op() {
  static const OpDef op{.name = "grid_sample",
                        .docs = kGridSampleDocs,
                        .min_inputs = 2,
                        .max_inputs = 2,
                        .schema = attr_schema<GridSampleAttrs>(),
                        .infer = infer_grid_sample,
                        .gradient = gradient_grid_sample,
                        .decompose = detail::grid_sample_by_corners,
                        .cpu = kernels::grid_sample()};
  return op;
}

const OpDef& grid_sample_backward_op() {
  static const OpDef op{.name = "grid_sample_backward",
                        .docs = kGridSampleBackwardDocs,
                        .min_inputs = 3,
                        .max_inputs = 3,
                        .schema = attr_schema<GridSampleAttrs>(),
                        .infer = infer_grid_sample_backward,
                        .decompose = detail::grid_sample_backward_by_corners,
                        .cpu = kernels::grid_sample_backward()};
  return op;
}

void check_image(const char* op, const Tensor& x, int64_t factor) {
  if (!x.defined() || x.rank() != 4)
    throw InvalidArgument("{}: x has shape {}, expected [N, C, H, W]", op,
                          x.defined() ? x.shape().str() : "undefined");
  if (factor < 1 || factor > kMostSpatial)
    throw InvalidArgument("{}: factor is {}, expected 1 or more", op, factor);
}

}  // namespace

Tensor interpolate(const Tensor& x, const Ints& size, const InterpolateOptions& options) {
  return apply_one(interpolate_op(), {x},
                   Attrs::of(InterpolateAttrs{size, options.mode, options.align_corners, 0.0}));
}

Tensor interpolate_by(const Tensor& x, double scale, const InterpolateOptions& options) {
  if (!x.defined() || x.rank() < 3)
    throw InvalidArgument("interpolate: input has shape {}, expected [N, C, spatial...]",
                          x.defined() ? x.shape().str() : "undefined");
  if (!(scale > 0.0) || !std::isfinite(scale))
    throw InvalidArgument("interpolate: scale is {}, expected more than 0", scale);
  Ints size = spatial_of(x.shape());
  for (int64_t& extent : size) {
    const double scaled = std::floor(static_cast<double>(extent) * scale);
    if (scaled < 1.0 || scaled > static_cast<double>(kMostSpatial))
      throw InvalidArgument("interpolate: {} elements times {} are {}, expected 1 to {}", extent,
                            scale, scaled, kMostSpatial);
    extent = static_cast<int64_t>(scaled);
  }
  return apply_one(interpolate_op(), {x},
                   Attrs::of(InterpolateAttrs{size, options.mode, options.align_corners, scale}));
}

Tensor pixel_shuffle(const Tensor& x, int64_t factor) {
  check_image("pixel_shuffle", x, factor);
  const int64_t n = x.shape(0), c = x.shape(1), h = x.shape(2), w = x.shape(3), f = factor;
  if (c % (f * f) != 0)
    throw InvalidArgument("pixel_shuffle: {} channels do not divide into blocks of {} x {}", c, f,
                          f);
  const Tensor blocks = reshape(x, {n, c / (f * f), f, f, h, w});
  return reshape(transpose(blocks, {0, 1, 4, 2, 5, 3}), {n, c / (f * f), h * f, w * f});
}

Tensor pixel_unshuffle(const Tensor& x, int64_t factor) {
  check_image("pixel_unshuffle", x, factor);
  const int64_t n = x.shape(0), c = x.shape(1), h = x.shape(2), w = x.shape(3), f = factor;
  if (h % f != 0 || w % f != 0)
    throw InvalidArgument(
        "pixel_unshuffle: an image of {} x {} does not divide into blocks of {} "
        "x {}",
        h, w, f, f);
  const Tensor blocks = reshape(x, {n, c, h / f, f, w / f, f});
  return reshape(transpose(blocks, {0, 1, 3, 5, 2, 4}), {n, c * f * f, h / f, w / f});
}

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  return apply_one(
      grid_sample_op(), {x, grid},
      Attrs::of(GridSampleAttrs{options.mode, options.padding, options.align_corners}));
}

namespace families {

Family resample() {
  return {&interpolate_op(), &interpolate_backward_op(), &grid_sample_op(),
          &grid_sample_backward_op()};
}

}  // namespace families
}  // namespace lockstep
