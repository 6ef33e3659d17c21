// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/dnnl_common.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "lockstep/ops/reorder.h"
#include "tests/ops/op_cases.h"

namespace lockstep::kernels {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
constexpr auto kF32 = memory::data_type::f32;

std::vector<std::byte> reorder(const TensorInfo& from_info, const Layout& from,
                               const std::vector<std::byte>& source, const TensorInfo& to_info,
                               const Layout& to) {
  const auto kernel = make_reorder(from_info, from, to_info, to);
  std::vector<std::byte> target(to.bytes(to_info)), scratch(kernel->scratch_bytes + 64);
  std::byte* in[] = {const_cast<std::byte*>(source.data())};
  std::byte* out[] = {target.data()};
  kernel->run({in, out, scratch.data()});
  return target;
}

std::vector<std::byte> bytes_of(const Tensor& x) { return {x.raw(), x.raw() + x.info().bytes()}; }

Tensor small_integers(const Shape& shape) {
  const Tensor x = Tensor::empty(shape);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i % 99);
  return x;
}

TEST(DnnlLayout, IsNamedAsTheLibraryNamesIt) {
  EXPECT_EQ(layout_of({{2, 32, 4, 4}, kF32, Tag::aBcd16b}).str(), "aBcd16b");
  EXPECT_EQ(layout_of({{32, 32, 3, 3}, kF32, Tag::ABcd16b16a}).str(), "ABcd16b16a");
  EXPECT_EQ(layout_of({{2, 3, 4, 5}, kF32, Tag::acdb}).str(), "acdb");
}

TEST(DnnlLayout, IsPlainWhenDenseAndRowMajor) {
  EXPECT_TRUE(layout_of({{2, 3, 4, 5}, kF32, Tag::abcd}).is_plain());
  EXPECT_TRUE(layout_of({{2, 3, 1, 1}, kF32, Tag::acdb}).is_plain());
  EXPECT_FALSE(layout_of({{2, 3, 4, 5}, kF32, Tag::abdc}).is_plain());
}

TEST(DnnlLayout, KnowsItsPadding) {
  const Layout padded = layout_of({{2, 19, 4, 4}, kF32, Tag::aBcd16b});
  EXPECT_TRUE(padded.padded());
  EXPECT_EQ(padded.bytes({}), 2u * 32 * 16 * sizeof(float));
  EXPECT_FALSE(layout_of({{2, 32, 4, 4}, kF32, Tag::aBcd16b}).padded());
}

TEST(DnnlLayout, EqualsOneOfTheSameBlocksAndSizes) {
  const Layout a = layout_of({{2, 32, 4, 4}, kF32, Tag::aBcd16b});
  EXPECT_EQ(a, layout_of({{2, 32, 4, 4}, kF32, Tag::aBcd16b}));
  EXPECT_FALSE(a == layout_of({{2, 32, 4, 4}, kF32, Tag::aBcd8b}));
  EXPECT_FALSE(a == Layout());
}

TEST(DescLike, CarriesBlocksAndOrderOverToOtherSizes) {
  for (const Tag tag : {Tag::abcd, Tag::acdb, Tag::aBcd16b, Tag::aBcd8b, Tag::ABcd16b16a})
    EXPECT_EQ(desc_like({{2, 32, 4, 4}, memory::data_type::u8, tag}, {3, 19, 7, 5}, kF32),
              memory::desc({3, 19, 7, 5}, kF32, tag));
}

TEST(Reorder, ThereAndBackIsTheIdentity) {
  const Tensor x = small_integers({2, 19, 3, 5});
  const Layout blocked = layout_of({{2, 19, 3, 5}, kF32, Tag::aBcd16b});
  const auto there = reorder(x.info(), {}, bytes_of(x), x.info(), blocked);
  EXPECT_EQ(there.size(), blocked.bytes(x.info()));
  EXPECT_EQ(reorder(x.info(), blocked, there, x.info(), {}), bytes_of(x));
}

TEST(Reorder, ConvertsDtypesOnTheWay) {
  const Tensor x = small_integers({2, 19, 3, 5});
  TensorInfo half = x.info();
  half.dtype = DType::bfloat16;
  const Layout blocked = layout_of({{2, 19, 3, 5}, memory::data_type::bf16, Tag::aBcd16b});
  const auto there = reorder(x.info(), {}, bytes_of(x), half, blocked);
  EXPECT_EQ(reorder(half, blocked, there, x.info(), {}), bytes_of(x));
  EXPECT_EQ(reorder(half, {}, reorder(x.info(), {}, bytes_of(x), half, {}), x.info(), {}),
            bytes_of(x));
}

TEST(Reorder, SplitsAPlainWeightIntoGroups) {
  const Tensor w = small_integers({32, 16, 3, 3});
  const Layout grouped = layout_of({{2, 16, 16, 3, 3}, kF32, Tag::aBCde16c16b});
  const auto there = reorder(w.info(), {}, bytes_of(w), w.info(), grouped);
  EXPECT_EQ(reorder(w.info(), grouped, there, w.info(), {}), bytes_of(w));
}

TEST(Reorder, GoesFromGroupsToBlocksWithoutGroups) {
  const Tensor w = small_integers({20, 1, 3, 3});
  const Layout grouped = layout_of({{20, 1, 1, 3, 3}, kF32, Tag::Abcde16a});
  const Layout blocked = layout_of({{20, 1, 3, 3}, kF32, Tag::aBcd16b});
  const auto there = reorder(w.info(), {}, bytes_of(w), w.info(), grouped);
  const auto across = reorder(w.info(), grouped, there, w.info(), blocked);
  EXPECT_EQ(reorder(w.info(), blocked, across, w.info(), {}), bytes_of(w));
}

TEST(Reorder, RefusesBlockedLayoutsOfOtherDtypes) {
  TensorInfo info;
  info.shape = {2, 16, 3, 3};
  TensorInfo wide = info;
  wide.dtype = DType::float64;
  const Layout blocked = layout_of({{2, 16, 3, 3}, kF32, Tag::aBcd16b});
  EXPECT_THROW(make_reorder(wide, {}, info, blocked), Unsupported);
}

TEST(OneThread, LeavesTheCallersSettingAsItWas) {
  omp_set_num_threads(3);
  {
    const OneThread one;
    EXPECT_EQ(omp_get_max_threads(), 1);
  }
  EXPECT_EQ(omp_get_max_threads(), 3);
}

}  // namespace
}  // namespace lockstep::kernels
