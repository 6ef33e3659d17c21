// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "lockstep/tensor/tensor.h"

namespace lockstep {
namespace {

TEST(MergeAxes, JoinsWhatIsOneRunInEveryOperand) {
  Shape shape{2, 3, 4};
  Strides a = contiguous_strides(shape);
  Strides b{0, 4, 1};
  std::array<Strides*, 2> operands{&a, &b};
  merge_axes(shape, operands);
  EXPECT_EQ(shape, (Shape{2, 12}));
  EXPECT_EQ(a, (Strides{12, 1}));
  EXPECT_EQ(b, (Strides{0, 1}));
}

TEST(MergeAxes, DropsAxesOfSizeOneAndKeepsOne) {
  Shape shape{1, 5, 1};
  Strides strides{7, 2, 9};
  std::array<Strides*, 1> operands{&strides};
  merge_axes(shape, operands);
  EXPECT_EQ(shape, (Shape{5}));
  EXPECT_EQ(strides, (Strides{2}));
  Shape scalar;
  Strides none;
  operands = {&none};
  merge_axes(scalar, operands);
  EXPECT_EQ(scalar, (Shape{1}));
}

TEST(MergeAxes, LeavesATransposeAsItIs) {
  Shape shape{3, 4};
  Strides strides{1, 3};
  std::array<Strides*, 1> operands{&strides};
  merge_axes(shape, operands);
  EXPECT_EQ(shape, (Shape{3, 4}));
}

// A random window: an array whose axes are permuted, stepped over, reversed or (for a source)
// broadcast.
class Windows {
 public:
  explicit Windows(unsigned seed) : random_(seed) {}

  int below(int bound) { return static_cast<int>(random_() % static_cast<unsigned>(bound)); }

  Shape shape() {
    constexpr int kSizes[] = {1, 2, 3, 5, 8, 17, 33};
    Shape result;
    for (int i = below(5); i > 0; --i)
      result.push_back(result.numel() > 500 ? 2 : kSizes[below(7)]);
    return result;
  }

  Tensor window(const Shape& shape, DType dtype, bool may_broadcast) {
    std::vector<int> order(static_cast<std::size_t>(shape.rank()));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    if (below(2)) std::shuffle(order.begin(), order.end(), random_);
    Strides strides = Strides::filled(shape.rank(), 0);
    std::int64_t size = 1;
    std::int64_t offset = 0;
    for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
      if (may_broadcast && below(6) == 0) continue;
      const std::int64_t step = 1 + (below(4) == 0);
      strides[*axis] = size * step;
      size *= shape[*axis] * step;
      if (below(6) != 0) continue;
      offset += (shape[*axis] - 1) * strides[*axis];
      strides[*axis] = -strides[*axis];
    }
    const Tensor base = Tensor::empty({size}, dtype);
    for (std::int64_t i = 0; i < size; ++i)
      base.window({}, {}, i).assign(Tensor::scalar(static_cast<double>(i % 101), DType::float64));
    return base.window(shape, strides, offset);
  }

 private:
  std::mt19937 random_;
};

double element(const Tensor& x, std::int64_t index) {
  std::int64_t offset = x.offset();
  for (int axis = x.rank() - 1; axis >= 0; index /= x.shape()[axis--])
    offset += index % x.shape()[axis] * x.strides()[axis];
  return visit_dtype(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return static_cast<double>(reinterpret_cast<const T*>(x.storage()->data())[offset]);
  });
}

TEST(CopyStrided, EqualsAnElementByElementCopyForWindowsOfEveryKind) {
  Windows windows(1);
  for (int round = 0; round < 400; ++round) {
    const auto from = static_cast<DType>(windows.below(kDTypeCount));
    const auto to = windows.below(2) ? from : static_cast<DType>(windows.below(kDTypeCount));
    const Shape shape = windows.shape();
    const Tensor source = windows.window(shape, from, true);
    const Tensor target = windows.window(shape, to, false);
    copy_strided(shape, {source.raw(), source.strides(), from},
                 {target.raw(), target.strides(), to});
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
      const double want = to == DType::boolean ? element(source, i) != 0 : element(source, i);
      ASSERT_EQ(element(target, i), want)
          << shape.str() << " of " << name_of(from) << " to " << name_of(to) << ", strides "
          << source.strides().str() << " to " << target.strides().str();
    }
  }
}

TEST(CopyStrided, TransposesEveryWidthAndSizeAroundItsTiles) {
  for (DType dtype : {DType::int8, DType::int16, DType::bfloat16, DType::float32, DType::float64})
    for (std::int64_t rows : {1, 3, 4, 15, 16, 17, 33})
      for (std::int64_t columns : {1, 4, 5, 63, 64, 65}) {
        const Tensor x = Tensor::empty({rows, columns}, dtype);
        for (std::int64_t i = 0; i < x.numel(); ++i)
          x.window({}, {}, i).assign(Tensor::scalar(static_cast<double>(i % 100)));
        const Tensor turned = x.window({columns, rows}, {1, columns}, 0).copy();
        for (std::int64_t i = 0; i < x.numel(); ++i)
          ASSERT_EQ(element(turned, i % columns * rows + i / columns), element(x, i))
              << name_of(dtype) << rows << "x" << columns;
      }
}

TEST(CopyStrided, CopiesNothingOfSizeZero) {
  copy_strided({0, 3}, {nullptr, {3, 1}, DType::float32}, {nullptr, {3, 1}, DType::float32});
  const Tensor from = Tensor::full({3}, 1.0), to = Tensor::full({3}, 2.0);
  copy_strided({0, 3}, {from.raw(), {3, 1}, DType::float32}, {to.raw(), {3, 1}, DType::float32});
  EXPECT_EQ(to.to_vector<float>(), std::vector<float>(3, 2.0F));
}

}  // namespace
}  // namespace lockstep
