// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "lockstep/tensor/tensor.h"

// What is expected is what NumPy prints.
namespace lockstep {
namespace {

std::string printed(const std::vector<float>& values, const Shape& shape) {
  const std::string text = Tensor::from(values, shape).str();
  return text.substr(0, text.rfind('\n'));
}

std::string printed(const std::vector<double>& values, const Shape& shape) {
  const std::string text = Tensor::from(values, shape).str();
  return text.substr(0, text.rfind('\n'));
}

std::vector<float> halves(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(0.5f * static_cast<float>(i));
  return values;
}

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

TEST(Print, EndsWithDtypeShapeAndDevice) {
  EXPECT_EQ(Tensor::full({1, 2}, 3).str(), "[[3. 3.]]\nfloat32[1, 2] cpu(0)");
  EXPECT_EQ(Tensor::zeros({2}, DType::int8, cpu(1)).str(), "[0 0]\nint8[2] cpu(1)");
  EXPECT_EQ(Tensor().str(), "(undefined)");
}

TEST(Print, GoesToStreams) {
  std::ostringstream stream;
  stream << Tensor::scalar(2, DType::int32);
  EXPECT_EQ(stream.str(), "2\nint32[] cpu(0)");
}

TEST(Print, PointsStandInOneColumn) {
  EXPECT_EQ(printed(Floats{1, 2, 3}, {3}), "[1. 2. 3.]");
  EXPECT_EQ(printed(Floats{0.1f, 0.25f, -3}, {3}), "[ 0.1   0.25 -3.  ]");
  EXPECT_EQ(printed(Floats{0.123456789f, 100.5f, 1.0f / 3}, {3}),
            "[  0.12345679 100.5          0.33333334]");
  EXPECT_EQ(printed(Floats{0, -0.0f}, {2}), "[ 0. -0.]");
}

TEST(Print, SmallLargeAndMixedNumbersHaveExponents) {
  EXPECT_EQ(printed(Floats{1e-5f, 2.25f}, {2}), "[1.00e-05 2.25e+00]");
  EXPECT_EQ(printed(Floats{1e9f, 2e9f}, {2}), "[1.e+09 2.e+09]");
  EXPECT_EQ(printed(Floats{12345.678f, 0.5f}, {2}), "[1.2345678e+04 5.0000000e-01]");
  EXPECT_EQ(printed(Doubles{1e100, 1}, {2}), "[1.e+100 1.e+000]");
}

TEST(Print, NanAndInfinityAlignWithNumbers) {
  EXPECT_EQ(printed(Floats{1, NAN, INFINITY, -INFINITY}, {4}), "[  1.  nan  inf -inf]");
  EXPECT_EQ(printed(Floats{NAN, NAN}, {2}), "[nan nan]");
}

TEST(Print, NestsWithBlankLinesBetweenPlanes) {
  EXPECT_EQ(printed(Floats{1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2}),
            "[[[1. 2.]\n  [3. 4.]]\n\n [[5. 6.]\n  [7. 8.]]]");
}

TEST(Print, WrapsLongLines) {
  Doubles values;
  for (int i = 0; i < 8; ++i) values.push_back(std::sin(i));
  EXPECT_EQ(printed(values, {8}),
            "[ 0.          0.84147098  0.90929743  0.14112001 -0.7568025  -0.95892427\n"
            " -0.2794155   0.6569866 ]");
}

TEST(Print, ShortensAxesBeyondAThousandElements) {
  EXPECT_EQ(printed(halves(1001), {1001}), "[  0.    0.5   1.  ... 499.  499.5 500. ]");
  EXPECT_EQ(printed(halves(1001), {7, 143}),
            "[[  0.    0.5   1.  ...  70.   70.5  71. ]\n"
            " [ 71.5  72.   72.5 ... 141.5 142.  142.5]\n"
            " [143.  143.5 144.  ... 213.  213.5 214. ]\n"
            " ...\n"
            " [286.  286.5 287.  ... 356.  356.5 357. ]\n"
            " [357.5 358.  358.5 ... 427.5 428.  428.5]\n"
            " [429.  429.5 430.  ... 499.  499.5 500. ]]");
  EXPECT_EQ(printed(halves(1000), {1000}).find("..."), std::string::npos);
}

TEST(Print, AlignsIntegersAndBooleans) {
  EXPECT_EQ(Tensor::from(std::vector<std::int64_t>{1, -20, 300}, {3}).str(),
            "[  1 -20 300]\nint64[3] cpu(0)");
  EXPECT_EQ(Tensor::from(std::vector<bool>{true, false, true, true}, {2, 2}).str(),
            "[[ True False]\n [ True  True]]\nbool[2, 2] cpu(0)");
}

TEST(Print, WritesScalarsAsPythonDoes) {
  EXPECT_EQ(printed(Floats{1}, {}), "1.0");
  EXPECT_EQ(printed(Floats{0.1f}, {}), "0.1");
  EXPECT_EQ(printed(Floats{1e-5f}, {}), "1e-05");
  EXPECT_EQ(printed(Doubles{123456789.0}, {}), "123456789.0");
  EXPECT_EQ(printed(Doubles{1.5e16}, {}), "1.5e+16");
  EXPECT_EQ(printed(Floats{0}, {}), "0.0");
  EXPECT_EQ(printed(Floats{-INFINITY}, {}), "-inf");
  EXPECT_EQ(Tensor::scalar(1, DType::boolean).str(), "True\nbool[] cpu(0)");
}

TEST(Print, ShowsNothingOfSizeZero) { EXPECT_EQ(printed(Floats{}, {0, 3}), "[]"); }

TEST(Print, WritesHalvesWithTheDigitsTheyHave) {
  EXPECT_EQ(Tensor::full({2}, 0.1, DType::float16).str(), "[0.1 0.1]\nfloat16[2] cpu(0)");
  EXPECT_EQ(Tensor::full({1}, 3.14159, DType::bfloat16).str(), "[3.14]\nbfloat16[1] cpu(0)");
}

TEST(Print, ReadsThroughStrides) {
  const Tensor x = Tensor::from(Floats{1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(x.window({2, 2}, {1, 2}, 0).str(), "[[1. 3.]\n [2. 4.]]\nfloat32[2, 2] cpu(0)");
}

}  // namespace
}  // namespace lockstep
