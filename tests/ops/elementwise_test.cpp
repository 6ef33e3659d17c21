// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/ops/catalogue.h"
#include "lockstep/ops/cpu/tile_ops.h"
#include "lockstep/ops/create.h"
#include "lockstep/ops/dispatch.h"
#include "lockstep/ops/unary.h"
#include "tests/message.h"
#include "tests/ops/op_cases.h"

namespace lockstep {
namespace {

using testing::message_of;
using testing::random_tensor;

Tensor ints(std::vector<std::int64_t> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, {count});
}

TEST(Elementwise, ComparesByOperators) {
  using Bools = std::vector<bool>;
  const Tensor a = ints({1, 2, 3}), two = ints({2});
  EXPECT_EQ((a < two).to_vector<bool>(), (Bools{true, false, false}));
  EXPECT_EQ((a <= two).to_vector<bool>(), (Bools{true, true, false}));
  EXPECT_EQ((a > two).to_vector<bool>(), (Bools{false, false, true}));
  EXPECT_EQ((a >= two).to_vector<bool>(), (Bools{false, true, true}));
  EXPECT_EQ((a < 2).to_vector<bool>(), (Bools{true, false, false}));
  EXPECT_EQ((a <= 1.5).to_vector<bool>(), (Bools{true, false, false}));
  EXPECT_EQ((a > 1.5).to_vector<bool>(), (Bools{false, true, true}));
  EXPECT_EQ((a >= 2.0).to_vector<bool>(), (Bools{false, true, true}));
  EXPECT_EQ((2.0 < a).to_vector<bool>(), (Bools{false, false, true}));
  EXPECT_EQ((2.0 <= a).to_vector<bool>(), (Bools{false, true, true}));
  EXPECT_EQ((1.5 > a).to_vector<bool>(), (Bools{true, false, false}));
  EXPECT_EQ((2 >= a).to_vector<bool>(), (Bools{true, true, false}));
}

TEST(Elementwise, ShapesThatDoNotBroadcastAreNamed) {
  EXPECT_EQ(message_of([] {
              add(Tensor::zeros({2, 3}), Tensor::zeros({4}));
            }),
            "add: shapes [2, 3] and [4] do not broadcast");
  EXPECT_EQ(message_of([] {
              where(Tensor::zeros({2}, DType::boolean), Tensor::zeros({3}), Tensor::zeros({}));
            }),
            "where: shapes [2] and [3] do not broadcast");
}

TEST(Elementwise, DtypesAnOpDoesNotTakeAreNamed) {
  const Tensor flag = Tensor::zeros({2}, DType::boolean);
  EXPECT_EQ(message_of([&] { subtract(flag, flag); }), "subtract: got bool, expected numbers");
  EXPECT_EQ(message_of([&] { clip(flag, 0, 1); }), "clip: got bool, expected numbers");
  const Tensor a = Tensor::zeros({2});
  const Tensor b = Tensor::zeros({2}, DType::int64);
  const Tensor mixed[] = {a, b};
  EXPECT_EQ(message_of([&] { apply(get_op("add"), mixed); }),
            "add: dtypes float32 and int64 differ");
  const Tensor whole[] = {b, b};
  EXPECT_EQ(message_of([&] { apply(get_op("divide"), whole); }),
            "divide: got int64, expected a floating dtype");
  EXPECT_EQ(message_of([&] { apply(get_op("logical_and"), whole); }),
            "logical_and: got int64, expected bool");
  const Tensor chosen[] = {b, a, a};
  EXPECT_EQ(message_of([&] { apply(get_op("where"), chosen); }),
            "where: the condition is int64, expected bool");
}

TEST(Elementwise, UndefinedInputsAndOtherDevicesAreRefused) {
  const Tensor a = Tensor::zeros({2});
  EXPECT_EQ(message_of([&] { add(a, Tensor()); }), "add: input 1 is undefined");
  EXPECT_EQ(message_of([&] { multiply(Tensor(), 2.0); }), "multiply: input 0 is undefined");
  EXPECT_EQ(message_of([&] { add(a, Tensor::zeros({2}, DType::float32, cpu(1))); }),
            "add: inputs are on cpu(0) and cpu(1)");
}

TEST(Elementwise, BoundsOfClipMustBeOrdered) {
  EXPECT_EQ(message_of([] { clip(Tensor::zeros({2}), 2, 1); }),
            "clip: low is 2 and high is 1, expected low <= high");
  EXPECT_EQ(message_of([] { clip(Tensor::zeros({2}), std::nan(""), 1); }),
            "clip: low is nan and high is 1, expected low <= high");
}

TEST(Elementwise, DtypesAreBroughtTogether) {
  const Tensor whole = ints({1, 2});
  EXPECT_EQ(add(whole, Tensor::zeros({2}, DType::float16)).dtype(), DType::float16);
  EXPECT_EQ(add(Tensor::zeros({2}, DType::float64), Tensor::zeros({2})).dtype(), DType::float64);
  EXPECT_EQ(divide(whole, whole).dtype(), DType::float32);
  EXPECT_EQ(where(ints({1, 0}), whole, Tensor::zeros({2})).dtype(), DType::float32);
  EXPECT_EQ(logical_and(whole, whole).dtype(), DType::boolean);
}

TEST(Elementwise, ANumberTakesTheTensorsDtypeWhereItFits) {
  const Tensor half = Tensor::zeros({2}, DType::bfloat16);
  const Tensor byte = Tensor::full({2}, 7, DType::uint8);
  EXPECT_EQ(add(half, 0.1).dtype(), DType::bfloat16);
  EXPECT_EQ(add(byte, 3.0).dtype(), DType::uint8);
  EXPECT_EQ(add(byte, 0.5).dtype(), DType::float32);
  EXPECT_EQ(multiply(byte, -1.0).to_vector<int>(), (std::vector<int>{-7, -7}));
  EXPECT_EQ(add(ints({1}), 0.5).item(), 1.5);
  EXPECT_EQ(subtract(10.0, ints({4})).item(), 6.0);
  EXPECT_EQ(divide(1.0, ints({4})).item(), 0.25);
}

TEST(Elementwise, IntegersWrapAroundAndDivideAsPythonDoes) {
  const auto largest = std::numeric_limits<std::int64_t>::max();
  const auto least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(add(ints({largest}), 1.0).to_vector<std::int64_t>()[0], least);
  EXPECT_EQ(floor_divide(ints({-7, 7, 5, least}), ints({2, -2, 0, -1})).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{-4, -4, 0, least}));
  EXPECT_EQ(remainder(ints({-7, 7, 5, least}), ints({2, -2, 0, -1})).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{1, -1, 0, 0}));
  EXPECT_EQ(power(ints({2, -1, 3, 0}), ints({10, -3, -1, 0})).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{1024, -1, 0, 1}));
}

TEST(Elementwise, AMinusSignIsNegative) {
  const Tensor x = full({1}, 5, DType::uint8);
  EXPECT_EQ((-x).dtype(), DType::uint8);
  EXPECT_EQ((-x).item(), negative(x).item());
  EXPECT_EQ(message_of([] { -ones({1}, DType::boolean); }), "negative: got bool, expected numbers");
}

TEST(Elementwise, NotANumberWinsInMaximumAndMinimum) {
  const float nan = std::nanf("");
  const Tensor a = Tensor::from(std::vector<float>{nan, 1, 2}, {3});
  const Tensor b = Tensor::from(std::vector<float>{1, nan, 3}, {3});
  for (const Tensor& y : {maximum(a, b), minimum(a, b)}) {
    EXPECT_TRUE(std::isnan(y.to_vector<float>()[0]));
    EXPECT_TRUE(std::isnan(y.to_vector<float>()[1]));
    EXPECT_FALSE(std::isnan(y.to_vector<float>()[2]));
  }
}

TEST(Elementwise, ValuesDoNotDependOnStridesOrPlace) {
  const Tensor x = cast(random_tensor({61, 67}, 1), DType::float32);
  const Tensor y = cast(random_tensor({61, 67}, 2), DType::float32);
  const Tensor turned = x.window({67, 61}, {1, 67}, 0);
  const Tensor dense = add(turned.contiguous(), power(turned.contiguous(), 2.0));
  EXPECT_EQ(add(turned, power(turned, 2.0)).to_vector<float>(), dense.to_vector<float>());
  const auto whole = divide(x, y).to_vector<float>();
  const Tensor tail = divide(x.window({5}, {1}, 100), y.window({5}, {1}, 100));
  EXPECT_EQ(tail.to_vector<float>(), std::vector<float>(whole.begin() + 100, whole.begin() + 105));
}

TEST(Elementwise, SumToUndoesBroadcasting) {
  const Tensor x = Tensor::full({4, 2, 3}, 1);
  EXPECT_EQ(sum_to(x, {2, 1}).shape(), Shape({2, 1}));
  EXPECT_EQ(sum_to(x, {2, 1}).to_vector<float>(), (std::vector<float>{12, 12}));
  EXPECT_EQ(sum_to(x, {}).item(), 24);
  EXPECT_TRUE(sum_to(x, {4, 2, 3}).same_as(x));
  EXPECT_EQ(message_of([&] { sum_to(x, {5}); }),
            "sum_to: shapes [5] and [4, 2, 3] do not broadcast");
}

TEST(TileFunctions, MayWriteOverTheirInputsAndTakeSingleValues) {
  std::vector<float> a(37, 2.0f);
  const float three = 3.0f;
  const float* inputs[] = {a.data(), &three};
  kernels::tile_function("subtract", 2)(inputs, nullptr, a.data(), a.size());
  EXPECT_EQ(a, std::vector<float>(37, -1.0f));
  const float* turned[] = {&three, a.data()};
  kernels::tile_function("subtract", 1)(turned, nullptr, a.data(), a.size());
  EXPECT_EQ(a, std::vector<float>(37, 4.0f));
  const float* one[] = {&three};
  kernels::tile_function("square", 1)(one, nullptr, a.data(), a.size());
  EXPECT_EQ(a, std::vector<float>(37, 9.0f));
}

// As NumPy and PyTorch have it: what is left over lies below a whole quotient.
TEST(Elementwise, FloorDivideByInfinityIsZeroOrMinusOne) {
  const double inf = std::numeric_limits<double>::infinity();
  for (DType dtype : {DType::float32, DType::float64}) {
    const Tensor a = cast(Tensor::from(std::vector<double>{1, -1, 1, -1, 0, 7, -7}, {7}), dtype);
    const Tensor b =
        cast(Tensor::from(std::vector<double>{-inf, inf, inf, -inf, -inf, -2, -2}, {7}), dtype);
    EXPECT_EQ(floor_divide(a, b).to_vector<double>(),
              (std::vector<double>{-1, -1, 0, 0, 0, -4, 3}));
  }
}

TEST(TileFunctions, ChooseAndCompareInNumbers) {
  const std::vector<float> a{1, 2, 3};
  const std::vector<float> b{3, 2, 1};
  const float zero = 0.0f;
  std::vector<float> out(3);
  const float* pair[] = {a.data(), b.data()};
  kernels::tile_function("greater_equal")(pair, nullptr, out.data(), 3);
  EXPECT_EQ(out, (std::vector<float>{0, 1, 1}));
  const float* choice[] = {out.data(), a.data(), &zero};
  kernels::tile_function("where", 4)(choice, nullptr, out.data(), 3);
  EXPECT_EQ(out, (std::vector<float>{0, 2, 3}));
}

TEST(TileFunctions, AreNotThereForEveryOpAndInput) {
  EXPECT_EQ(kernels::tile_function("conv"), nullptr);
  EXPECT_EQ(kernels::tile_function("exp", 2), nullptr);
}

}  // namespace
}  // namespace lockstep
