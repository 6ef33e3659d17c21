// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/detail/grid_corners.h"

#include "lockstep/ops/create.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/index_ops.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/resample_attrs.h"
#include "lockstep/ops/shape_ops.h"
#include "lockstep/ops/unary.h"

namespace lockstep::detail {
namespace {

// Places along one axis of `size` elements, [N, 1, P], in elements, and how they move with the
// grid.
struct Places {
  Tensor at, slope;
  double size;

  Places(const Tensor& grid, int coordinate, std::int64_t elements, const GridSampleAttrs& attrs)
      : size(static_cast<double>(elements)) {
    const Tensor along = slice_axis(grid, 3, coordinate, coordinate + 1);
    const Tensor g = reshape(along, {grid.shape(0), 1, grid.shape(1) * grid.shape(2)});
    const double scale = attrs.align_corners ? (size - 1.0) / 2.0 : size / 2.0;
    at = attrs.align_corners ? (g + 1.0) * scale : ((g + 1.0) * size - 1.0) / 2.0;
    slope = full(at.shape(), scale, at.dtype(), at.device());
    if (attrs.padding == "reflection") reflect(attrs.align_corners);
    if (attrs.padding != "zeros") clip_to_border();
  }

  // There and back between the ends, as often as it takes.
  void reflect(bool align_corners) {
    const double least = align_corners ? 0.0 : -0.5, span = align_corners ? size - 1.0 : size;
    if (span <= 0.0) {
      at = at * 0.0;
      slope = slope * 0.0;
      return;
    }
    const Tensor off = at - least, distance = abs(off);
    const Tensor odd = greater(
        remainder(floor(distance / span), Tensor::scalar(2.0, at.dtype(), at.device())), 0.5);
    const Tensor rest = distance - floor(distance / span) * span;
    at = where(odd, span - rest, rest) + least;
    const Tensor sense = where(less(off, 0.0), slope * -1.0, slope);
    slope = where(odd, sense * -1.0, sense);
  }

  void clip_to_border() {
    const Tensor inside = logical_and(greater(at, 0.0), less(at, size - 1.0));
    slope = where(inside, slope, slope * 0.0);
    at = clip(at, 0.0, size - 1.0);
  }

  Tensor is_inside(const Tensor& element) const {
    return logical_and(greater_equal(element, 0.0), less_equal(element, size - 1.0));
  }
};

// One of the elements around each place: where it is, how much it counts, and the slopes of that.
struct Corner {
  Tensor inside, index, weight, slope_x, slope_y;
};

class Grid {
 public:
  Grid(const Tensor& x, const Tensor& grid, const GridSampleAttrs& attrs)
      : x_(reshape(x, {x.shape(0), x.shape(1), x.shape(2) * x.shape(3)})),
        across(grid, 0, x.shape(3), attrs),
        down(grid, 1, x.shape(2), attrs) {
    if (attrs.mode == "nearest") {
      const Tensor one = across.at * 0.0 + 1.0, none = across.at * 0.0;
      add(round(across.at), round(down.at), one, none, none);
      return;
    }
    const Tensor left = floor(across.at), top = floor(down.at);
    const Tensor fx = across.at - left, fy = down.at - top, one = fx * 0.0 + 1.0;
    const Tensor ex = 1.0 - fx, ey = 1.0 - fy;
    add(left, top, ex * ey, -ey, -ex);
    add(left + 1.0, top, fx * ey, ey, -fx);
    add(left, top + 1.0, ex * fy, -fy, ex);
    add(left + 1.0, top + 1.0, fx * fy, fy, fx);
  }

  // [N, C, P]; zero where the corner lies outside.
  Tensor values(const Corner& corner) const {
    const Tensor found = gather(x_, spread(corner.index), 2);
    return where(corner.inside, found, zeros({}, x_.dtype(), x_.device()));
  }
  Tensor spread(const Tensor& index) const {
    return expand(index, {x_.shape(0), x_.shape(1), index.shape(2)});
  }

  std::vector<Corner> corners;

 private:
  void add(const Tensor& column, const Tensor& row, const Tensor& weight, const Tensor& slope_x,
           const Tensor& slope_y) {
    const Tensor inside = logical_and(across.is_inside(column), down.is_inside(row));
    const Tensor place =
        clip(row, 0.0, down.size - 1.0) * across.size + clip(column, 0.0, across.size - 1.0);
    corners.push_back({inside, cast(place, DType::int64), weight, slope_x, slope_y});
  }
  Tensor x_;

 public:
  Places across, down;
};

Tensor plus(const Tensor& sum, const Tensor& part) { return sum.defined() ? sum + part : part; }

}  // namespace

std::vector<Tensor> grid_sample_by_corners(std::span<const Tensor> inputs, const Attrs& attrs) {
  const Tensor &x = inputs[0], &grid = inputs[1];
  const Grid around(x, grid, attrs.as<GridSampleAttrs>());
  Tensor y;
  for (const Corner& corner : around.corners) y = plus(y, around.values(corner) * corner.weight);
  return {reshape(y, {x.shape(0), x.shape(1), grid.shape(1), grid.shape(2)})};
}

std::vector<Tensor> grid_sample_backward_by_corners(std::span<const Tensor> inputs,
                                                    const Attrs& attrs) {
  const Tensor &x = inputs[1], &grid = inputs[2];
  const std::int64_t n = x.shape(0), c = x.shape(1), plane = x.shape(2) * x.shape(3);
  const std::int64_t places = grid.shape(1) * grid.shape(2);
  const Tensor grad = reshape(inputs[0], {n, c, places});
  const Grid around(x, grid, attrs.as<GridSampleAttrs>());
  Tensor grad_x = zeros({n, c, plane}, x.dtype(), x.device()), across, down;
  const Tensor nothing = zeros({}, x.dtype(), x.device());
  for (const Corner& corner : around.corners) {
    const Tensor share = where(corner.inside, grad * corner.weight, nothing);
    grad_x = scatter_add(grad_x, around.spread(corner.index), share, 2);
    const Tensor pull = sum(grad * around.values(corner), {1}, true);
    across = plus(across, pull * corner.slope_x);
    down = plus(down, pull * corner.slope_y);
  }
  const Tensor grad_grid = concat({across * around.across.slope, down * around.down.slope}, 1);
  return {reshape(grad_x, {x.shape().begin(), x.shape().end()}),
          reshape(transpose(grad_grid, {0, 2, 1}), {n, grid.shape(1), grid.shape(2), 2})};
}

}  // namespace lockstep::detail
