// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/dtype.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/message.h"

namespace lockstep {
namespace {

std::vector<DType> all_dtypes() {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}

std::vector<DType> dtypes_named(std::string_view line) {
  std::istringstream words{std::string(line)};
  std::vector<DType> dtypes;
  for (std::string word; words >> word;) dtypes.push_back(dtype_from_name(word));
  return dtypes;
}

TEST(DType, NamesComeBack) {
  for (DType dtype : all_dtypes()) EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
}

TEST(DType, AnUnknownNameIsRefusedWithTheKnownOnes) {
  EXPECT_EQ(testing::message_of([] { dtype_from_name("float8"); }),
            "dtype: 'float8' is not a dtype (float32, float64, float16, bfloat16, int8, uint8, "
            "int16, int32, int64, bool)");
}

TEST(DType, SizesAreThoseOfTheirTypes) {
  for (DType dtype : all_dtypes())
    visit_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      EXPECT_EQ(item_size(dtype), sizeof(T)) << name_of(dtype);
      EXPECT_EQ(dtype_of<T>, dtype);
    });
}

TEST(DType, EachIsFloatingOrIntegralOrBool) {
  for (DType dtype : all_dtypes())
    EXPECT_EQ(is_floating(dtype) + is_integral(dtype) + (dtype == DType::boolean), 1)
        << name_of(dtype);
}

TEST(DType, PromotionDoesNotDependOnOrderAndKeepsEqualOnes) {
  for (DType a : all_dtypes()) {
    EXPECT_EQ(promote(a, a), a);
    EXPECT_EQ(promote(a, DType::boolean), a);
    for (DType b : all_dtypes()) EXPECT_EQ(promote(a, b), promote(b, a));
  }
}

// What torch.promote_types answers; columns are as rows.
TEST(DType, PromotionIsPyTorchs) {
  const std::vector<std::string_view> table{
      "float32 float32 float64 float32 float32 float32 float32 float32 float32 float32 float32",
      "float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 float64",
      "float16 float32 float64 float16 float32 float16 float16 float16 float16 float16 float16",
      "bfloat16 float32 float64 float32 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 "
      "bfloat16",
      "int8 float32 float64 float16 bfloat16 int8 int16 int16 int32 int64 int8",
      "uint8 float32 float64 float16 bfloat16 int16 uint8 int16 int32 int64 uint8",
      "int16 float32 float64 float16 bfloat16 int16 int16 int16 int32 int64 int16",
      "int32 float32 float64 float16 bfloat16 int32 int32 int32 int32 int64 int32",
      "int64 float32 float64 float16 bfloat16 int64 int64 int64 int64 int64 int64",
      "bool float32 float64 float16 bfloat16 int8 uint8 int16 int32 int64 bool"};
  ASSERT_EQ(table.size(), static_cast<std::size_t>(kDTypeCount));
  for (std::string_view line : table) {
    const std::vector<DType> row = dtypes_named(line);
    ASSERT_EQ(row.size(), table.size() + 1);
    for (std::size_t b = 0; b < table.size(); ++b)
      EXPECT_EQ(promote(row[0], all_dtypes()[b]), row[b + 1])
          << name_of(row[0]) << " and " << name_of(all_dtypes()[b]);
  }
}

TEST(DType, PromotionHoldsBothSides) {
  EXPECT_EQ(promote(DType::float16, DType::bfloat16), DType::float32);
  EXPECT_EQ(promote(DType::int8, DType::uint8), DType::int16);
  EXPECT_EQ(promote(DType::int64, DType::float16), DType::float16);
  EXPECT_EQ(promote(DType::int32, DType::int64), DType::int64);
  EXPECT_EQ(promote(DType::float32, DType::float64), DType::float64);
}

}  // namespace
}  // namespace lockstep
