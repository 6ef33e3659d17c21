// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/ops/attrs.h"
#include "lockstep/tensor/tensor.h"

// What goes between the slices of a split layer and the rest of a net (docs/model_parallel.md).
// These ops stand in training steps alone, and are not in the catalogue. Two of them cross from the
// rest of the net into the slices, two come back, and each is the gradient of another one:
// spread and sum, split and gather.
namespace lockstep {

struct OpDef;

// How an axis is cut into slices: it is `groups` stretches of one length, and slice k has
// [bounds[k], bounds[k + 1]) of each of them.
struct SliceCut {
  int axis = 0;
  std::int64_t groups = 1;
  Ints bounds = {};

  std::int64_t slices() const { return static_cast<std::int64_t>(bounds.size()) - 1; }
  std::int64_t stretch() const { return bounds.back(); }
  std::int64_t extent() const { return groups * stretch(); }
  std::int64_t extent(std::int64_t slice) const {
    const auto k = static_cast<std::size_t>(slice);
    return groups * (bounds[k + 1] - bounds[k]);
  }
  Shape shape_of(const Shape& whole, std::int64_t slice) const;
  bool operator==(const SliceCut&) const = default;
};
// As evenly as it goes: the first ones have one more.
Ints even_bounds(std::int64_t units, std::int64_t slices);

// Of all of these ops. A worker that has some of the slices has [first, last) of them.
struct SliceTransferAttrs {
  std::int64_t slices = 1, first = 0, last = 1;
  int axis = 0;
  std::int64_t groups = 1;
  Ints bounds = {};
  template <class F>
  void visit(F&& f) {
    f("slices", slices, "how many there are");
    f("first", first, "the first slice that is here");
    f("last", last, "the one after the last that is here");
    f("axis", axis, "the axis that is cut");
    f("groups", groups, "stretches of the axis that are cut alike");
    f("bounds", bounds, "where slices begin in each of them, and the end");
  }
  SliceCut cut() const { return {axis, groups, bounds}; }
};

// x for each slice to read: what flows back is added up.
std::vector<Tensor> slice_spread(const Tensor& x, std::int64_t slices);
// The sum over the slices, by the canonical tree.
Tensor slice_sum(const std::vector<Tensor>& parts);
// The largest of each element over the slices, NaN above all; no gradient.
Tensor slice_max(const std::vector<Tensor>& parts);
// Each slice's part of x, and x of the parts.
std::vector<Tensor> slice_split(const Tensor& x, const SliceCut& cut);
Tensor slice_gather(const std::vector<Tensor>& parts, const SliceCut& cut);

const OpDef& slice_spread_op();
const OpDef& slice_sum_op();
const OpDef& slice_max_op();
const OpDef& slice_split_op();
const OpDef& slice_gather_op();
// One of the five.
bool is_slice_transfer(const OpDef& op);
// Those that have something of each slice for their inputs.
bool ends_slices(const OpDef& op);

// Where the workers meet that have the slices of a step between them.
class SliceMeeting {
 public:
  virtual ~SliceMeeting() = default;
  // By the canonical tree over all slices; `own` are this worker's, in order.
  virtual void sum(std::span<const std::span<const float>> own, std::span<float> result) = 0;
  // `all` has room for every slice's bytes, one slice after the other, each a multiple of 4; this
  // worker's are in their places, and the others' come there.
  virtual void gather(std::span<std::byte> all, std::span<const std::size_t> sizes) = 0;
};

// What this thread computes meets the other slices there. Scopes do not nest.
class SliceMeetingScope {
 public:
  explicit SliceMeetingScope(SliceMeeting& meeting);
  ~SliceMeetingScope();
  SliceMeetingScope(const SliceMeetingScope&) = delete;
  SliceMeetingScope& operator=(const SliceMeetingScope&) = delete;
  // Throws InternalError where there is none.
  static SliceMeeting& current();
};

}  // namespace lockstep
