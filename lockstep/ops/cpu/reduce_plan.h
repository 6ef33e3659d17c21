// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "lockstep/tensor/shape.h"

namespace lockstep::kernels {

// Axes to walk over: sizes, and steps in elements.
struct Walk {
  Dims sizes;
  Dims steps;
  void add(std::int64_t size, std::int64_t step) {
    sizes.push_back(size);
    steps.push_back(step);
  }
};

// How to reduce a dense array: neighbouring axes that share a fate are one, axes of size 1 are
// gone. What remains alternates between kept and reduced, so that a reduction is one of two loops:
//   inner axis reduced: each output is a sum of rows of `inner` elements;
//   inner axis kept: `inner` outputs at once are sums of `rows` rows that follow each other.
struct ReducePlan {
  Walk kept;     // without the inner axis
  Walk reduced;  // without the inner axis and without `rows`
  std::int64_t inner = 1;
  std::int64_t rows = 1;
  bool inner_reduced = true;
  std::int64_t count = 1;  // elements that make one output
};

ReducePlan plan_reduction(const Shape& shape, std::span<const std::int64_t> axes);

// Calls f(offset) for each position of the walk, the last axis fastest.
template <class F>
void for_each_offset(const Walk& walk, F&& f, int axis = 0, std::int64_t offset = 0) {
  if (axis == walk.sizes.rank()) return f(offset);
  for (std::int64_t i = 0; i < walk.sizes[axis]; ++i)
    for_each_offset(walk, f, axis + 1, offset + i * walk.steps[axis]);
}

// A reducer R has: In, Acc, Out; initial(); row(x, n, output) -> Acc; combine(Acc, Acc);
// rows(x, stride, count, width, first_output, Acc*); finish(Acc, output) -> Out; and foldable():
// whether what it makes of an element is the same for every output.
template <class R>
void reduce_rows(const ReducePlan& plan, const R& r, const typename R::In* x,
                 typename R::Out* out) {
  std::int64_t output = 0;
  for_each_offset(plan.kept, [&](std::int64_t kept) {
    typename R::Acc total = r.initial();
    for_each_offset(plan.reduced, [&](std::int64_t reduced) {
      total = r.combine(total, r.row(x + kept + reduced, plan.inner, output));
    });
    out[output] = r.finish(total, output);
    ++output;
  });
}

inline constexpr std::int64_t kReduceChunk = 1024;

// Rows that are a few elements wide: several together make one row that fills vectors.
template <class R>
void narrow_rows(const R& r, const typename R::In* x, std::int64_t rows, std::int64_t width,
                 std::int64_t output, typename R::Acc* totals) {
  const std::int64_t fold = kReduceChunk / 2 / width;
  const std::int64_t wide = fold * width;
  const std::int64_t folded = rows / fold;
  if (folded > 0) {
    std::array<typename R::Acc, kReduceChunk> parts;
    std::fill_n(parts.begin(), wide, r.initial());
    r.rows(x, wide, folded, wide, output, parts.data());
    for (std::int64_t i = 0; i < wide; ++i)
      totals[i % width] = r.combine(totals[i % width], parts[static_cast<std::size_t>(i)]);
  }
  r.rows(x + folded * wide, width, rows - folded * fold, width, output, totals);
}

template <class R>
void reduce_columns(const ReducePlan& plan, const R& r, const typename R::In* x,
                    typename R::Out* out) {
  std::array<typename R::Acc, kReduceChunk> totals;
  const bool narrow = plan.inner <= 64 && r.foldable();
  std::int64_t output = 0;
  for_each_offset(plan.kept, [&](std::int64_t kept) {
    for (std::int64_t begin = 0; begin < plan.inner; begin += kReduceChunk) {
      const std::int64_t width = std::min(kReduceChunk, plan.inner - begin);
      std::fill_n(totals.begin(), width, r.initial());
      for_each_offset(plan.reduced, [&](std::int64_t reduced) {
        const typename R::In* from = x + kept + reduced + begin;
        if (narrow)
          narrow_rows(r, from, plan.rows, width, output, totals.data());
        else
          r.rows(from, plan.inner, plan.rows, width, output, totals.data());
      });
      for (std::int64_t i = 0; i < width; ++i)
        out[output + i] = r.finish(totals[static_cast<std::size_t>(i)], output + i);
      output += width;
    }
  });
}

template <class R>
void reduce(const ReducePlan& plan, const R& r, const typename R::In* x, typename R::Out* out) {
  if (plan.inner_reduced)
    reduce_rows(plan, r, x, out);
  else
    reduce_columns(plan, r, x, out);
}

// An array seen as [outer, size, inner] around one axis.
struct AxisPlan {
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;
};

AxisPlan plan_axis(const Shape& shape, std::int64_t axis);

}  // namespace lockstep::kernels
