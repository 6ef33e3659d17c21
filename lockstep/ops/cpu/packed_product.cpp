// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/packed_product.h"

#include <algorithm>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/ops/cpu/packed_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "lockstep/ops/cpu/rows-inl.h"
#include "lockstep/ops/cpu/small_product.h"
#include "lockstep/ops/cpu/transpose-inl.h"

// The inner loops of Goto and van de Geijn's "Anatomy of High-Performance Matrix Multiplication": a
// tile of sums stays in registers while a strip of rows and a panel of columns, both packed, pass
// by. A part of the panel stays in the first-level cache while all strips of a block meet it.
#ifndef LOCKSTEP_PACKED_PRODUCT_SIZES
#define LOCKSTEP_PACKED_PRODUCT_SIZES
namespace lockstep::kernels {
namespace {
// On every target: what is packed and what is scratch has one size.
constexpr std::int64_t kWidestPanel = 32, kMostBlockRows = 96, kMostDepth = 256;
}  // namespace
}  // namespace lockstep::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// 24 of AVX-512's 32 registers hold sums, 12 of AVX2's 16; what has no fused multiply-add needs one
// more for a product.
constexpr int kMostRows = HWY_TARGET <= HWY_AVX3 ? 12 : (HWY_TARGET <= HWY_AVX2 ? 6 : 4);
constexpr std::int64_t kBlockRows = kMostBlockRows / kMostRows * kMostRows;

HWY_INLINE std::int64_t PanelWidth() { return 2 * static_cast<std::int64_t>(hn::Lanes(D())); }

void PackPanels(Rows source, std::int64_t depth, std::int64_t columns, bool transposed,
                float* target) {
  const std::int64_t width = PanelWidth();
  for (std::int64_t first = 0; first < columns; first += width) {
    const std::int64_t count = std::min(width, columns - first);
    if (transposed)
      transpose_rows(source.row(first), source.stride, count, depth, target, width);
    else
      for (std::int64_t k = 0; k < depth; ++k) {
        float* row = target + k * width;
        std::copy_n(source.row(k) + first, count, row);
        std::fill(row + count, row + width, 0.0f);
      }
    target += depth * width;
  }
}

// Where a tile's sums go: the first `columns` columns of a panel, at `at` of each row.
struct Target {
  float* const* rows;
  std::int64_t at, columns;
};

// Calls f(r, v, place in memory, elements) for both vectors of each row.
template <int kRows, bool kWhole, class F>
HWY_INLINE void EachVector(const Target& target, const F& f) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < 2; ++v)
      f(r, v, target.rows[r] + target.at + v * lanes,
        kWhole ? lanes : std::clamp<std::int64_t>(target.columns - v * lanes, 0, lanes));
}

// Sums over `depth` go on from what is there, or begin with zero.
template <int kRows, bool kWhole>
HWY_INLINE void SumTile(const float* HWY_RESTRICT rows, const float* HWY_RESTRICT panel,
                        std::int64_t depth, const Target& target, bool add) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sums[kRows][2];
  for (auto& row : sums) row[0] = row[1] = hn::Zero(d);
  if (add)
    EachVector<kRows, kWhole>(target, [&](int r, int v, const float* x, std::int64_t count)
                                          HWY_ATTR { sums[r][v] = load_at(d, x, 0, count); });
  for (std::int64_t k = 0; k < depth; ++k, rows += kRows, panel += 2 * lanes) {
    const V first = hn::LoadU(d, panel), second = hn::LoadU(d, panel + lanes);
    for (int r = 0; r < kRows; ++r) {
      const V left = hn::Set(d, rows[r]);
      sums[r][0] = hn::MulAdd(left, first, sums[r][0]);
      sums[r][1] = hn::MulAdd(left, second, sums[r][1]);
    }
  }
  EachVector<kRows, kWhole>(target, [&](int r, int v, float* x, std::int64_t count)
                                        HWY_ATTR { store_at(d, sums[r][v], x, 0, count); });
}

template <int kRows>
void Tile(const float* rows, const float* panel, std::int64_t depth, const Target& target,
          bool add) {
  if (target.columns == PanelWidth())
    SumTile<kRows, true>(rows, panel, depth, target, add);
  else
    SumTile<kRows, false>(rows, panel, depth, target, add);
}

using TileFunction = void (*)(const float*, const float*, std::int64_t, const Target&, bool);

template <int... kRows>
TileFunction TileOf(std::int64_t rows, std::integer_sequence<int, kRows...>) {
  static constexpr TileFunction tiles[] = {Tile<kRows + 1>...};
  return tiles[rows - 1];
}

// A block of rows cut into strips that are as equal as can be: a strip of one row would wait for
// its own sums.
struct Cut {
  explicit Cut(std::int64_t rows) : rows(rows), strips((rows + kMostRows - 1) / kMostRows) {}
  std::int64_t first(std::int64_t strip) const { return strip * rows / strips; }
  std::int64_t count(std::int64_t strip) const { return first(strip + 1) - first(strip); }
  std::int64_t rows, strips;
};

// target[k, r] = rows[r][k].
void PackStrip(const float* const* rows, std::int64_t count, std::int64_t depth, float* target) {
  const std::int64_t whole_rows = count / kTransposed * kTransposed;
  const std::int64_t whole_depth = depth / kTransposed * kTransposed;
  for (std::int64_t r = 0; r < whole_rows; r += kTransposed)
    for (std::int64_t k = 0; k < whole_depth; k += kTransposed)
      transpose_block([&](std::int64_t i) { return rows[r + i] + k; }, target + k * count + r,
                      count);
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t k = r < whole_rows ? whole_depth : 0; k < depth; ++k)
      target[k * count + r] = rows[r][k];
}

// The part [first, last) of the depth for one panel and all strips.
struct Slice {
  const float* panel;
  std::int64_t first, last, depth;
};

void MeetPanel(const Slice& slice, const Cut& cut, const float* strips, Target target, bool add) {
  const float* panel = slice.panel + slice.first * PanelWidth();
  float* const* rows = target.rows;
  for (std::int64_t s = 0; s < cut.strips; ++s) {
    target.rows = rows + cut.first(s);
    TileOf(cut.count(s), std::make_integer_sequence<int, kMostRows>())(
        strips + cut.first(s) * slice.depth + slice.first * cut.count(s), panel,
        slice.last - slice.first, target, add);
  }
}

void Block(std::span<const float* const> from, const PackedMatrix& matrix, float* const* to,
           bool add, float* scratch) {
  const Cut cut(static_cast<std::int64_t>(from.size()));
  const std::int64_t width = PanelWidth(), depth = matrix.depth;
  for (std::int64_t s = 0; s < cut.strips; ++s)
    PackStrip(from.data() + cut.first(s), cut.count(s), depth, scratch + cut.first(s) * depth);
  const std::int64_t slices = std::max<std::int64_t>((depth + kMostDepth - 1) / kMostDepth, 1);
  const float* panel = matrix.data;
  for (std::int64_t at = 0; at < matrix.columns; at += width, panel += depth * width)
    for (std::int64_t i = 0; i < slices; ++i)
      MeetPanel({panel, i * depth / slices, (i + 1) * depth / slices, depth}, cut, scratch,
                {to, at, std::min(width, matrix.columns - at)}, add || i > 0);
}

void Product(std::span<const float* const> from, const PackedMatrix& matrix,
             std::span<float* const> to, bool add, float* scratch) {
  constexpr auto kBlock = static_cast<std::size_t>(kBlockRows);
  for (std::size_t first = 0; first < from.size(); first += kBlock)
    Block(from.subspan(first, std::min(kBlock, from.size() - first)), matrix, to.data() + first,
          add, scratch);
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(PackPanels);
HWY_EXPORT(Product);

std::int64_t packed_floats(std::int64_t depth, std::int64_t columns) {
  return depth * ((columns + kWidestPanel - 1) / kWidestPanel * kWidestPanel);
}

PackedMatrix pack_matrix(Rows source, std::int64_t depth, std::int64_t columns, bool transposed,
                         float* target) {
  HWY_DYNAMIC_DISPATCH(PackPanels)(source, depth, columns, transposed, target);
  return {target, depth, columns};
}

std::int64_t product_scratch_floats(std::int64_t rows, std::int64_t depth) {
  return std::min(rows, kMostBlockRows) * depth;
}

void packed_product(std::span<const float* const> from, const PackedMatrix& matrix,
                    std::span<float* const> to, bool add, float* scratch) {
  HWY_DYNAMIC_DISPATCH(Product)(from, matrix, to, add, scratch);
}

}  // namespace lockstep::kernels
#endif
