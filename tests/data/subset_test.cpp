// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/subset.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tests/data/number_at.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using testing::message_of;
using testing::number_at;

// Sample i is (first + i, label).
DatasetPtr numbered_set(std::int64_t count, std::int64_t first = 0,
                        std::vector<std::string> classes = {}) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), first);
  const Tensor array = Tensor::from(values, {count});
  return std::make_shared<ArrayDataset>(Fields{array, array}, std::move(classes));
}

std::vector<std::int64_t> all_of(const Dataset& dataset) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < dataset.size(); ++i) all.push_back(number_at(dataset, i));
  return all;
}

TEST(Subset, HasTheSamplesOfTheIndicesInTheirOrder) {
  const Subset subset(numbered_set(10, 100, {"a", "b"}), {7, 0, 7});
  EXPECT_EQ(all_of(subset), (std::vector<std::int64_t>{107, 100, 107}));
  const std::vector<std::int64_t> asked{2, 1};
  EXPECT_EQ(subset.batch(asked).front().to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{107, 100}));
  EXPECT_EQ(subset.class_names(), (std::vector<std::string>{"a", "b"}));
}

TEST(Subset, RefusesWhatIsNoSample) {
  EXPECT_EQ(message_of([] {
              Subset(numbered_set(10), {3, 10});
            }),
            "subset: sample 10 of 10 samples");
  EXPECT_EQ(message_of([] { Subset(numbered_set(10), {3}).sample(1); }),
            "subset: sample 1 of 1 samples");
  EXPECT_EQ(message_of([] { Subset(nullptr, {}); }), "subset: there is no data set");
  EXPECT_EQ(message_of([] { slice(numbered_set(10), 5, 11); }),
            "slice: samples 5 to 11 of 10 samples");
}

TEST(Subset, ASliceIsARange) {
  EXPECT_EQ(all_of(*slice(numbered_set(10), 3, 6)), (std::vector<std::int64_t>{3, 4, 5}));
}

TEST(RandomSplit, PartsShareNothingAndHaveEverything) {
  const auto parts = random_split(numbered_set(100), {70, 20, 10}, 5);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0]->size(), 70);
  std::set<std::int64_t> seen;
  for (const DatasetPtr& part : parts)
    for (const std::int64_t value : all_of(*part)) EXPECT_TRUE(seen.insert(value).second);
  EXPECT_EQ(seen.size(), 100u);
}

TEST(RandomSplit, IsAFunctionOfTheSeed) {
  const auto first = all_of(*random_split(numbered_set(100), {50, 50}, 5)[0]);
  EXPECT_EQ(all_of(*random_split(numbered_set(100), {50, 50}, 5)[0]), first);
  EXPECT_NE(all_of(*random_split(numbered_set(100), {50, 50}, 6)[0]), first);
}

TEST(RandomSplit, PartsOfOneAreRoundedDownAndTheRestGoesToTheFirst) {
  const auto parts = random_parts(numbered_set(103), {0.8, 0.1, 0.1}, 1);
  EXPECT_EQ(parts[0]->size(), 83);
  EXPECT_EQ(parts[1]->size(), 10);
  EXPECT_EQ(parts[2]->size(), 10);
  // 0.1 * 10 and its like are whole numbers but for their rounding.
  EXPECT_EQ(random_parts(numbered_set(10), {0.7, 0.2, 0.1}, 1)[2]->size(), 1);
}

TEST(RandomSplit, RefusesPartsThatDoNotAddUp) {
  EXPECT_EQ(message_of([] {
              random_split(numbered_set(10), {5, 4}, 1);
            }),
            "random_split: the parts have 9 samples, the set 10");
  EXPECT_EQ(message_of([] {
              random_split(numbered_set(10), {5, 6}, 1);
            }),
            "random_split: a part of 6 samples, 5 of 10 are left");
  EXPECT_EQ(message_of([] {
              random_parts(numbered_set(10), {0.5, 0.4}, 1);
            }),
            "random_parts: the parts add up to 0.9, expected 1");
}

TEST(ConcatDataset, IsOneSetAfterTheOther) {
  const ConcatDataset all({numbered_set(2), numbered_set(0), numbered_set(3, 10)});
  EXPECT_EQ(all_of(all), (std::vector<std::int64_t>{0, 1, 10, 11, 12}));
  EXPECT_EQ(message_of([&] { all.sample(5); }), "concat: sample 5 of 5 samples");
}

TEST(ConcatDataset, RefusesSetsThatDoNotFitTogether) {
  const auto one_field = std::make_shared<ArrayDataset>(Fields{Tensor::zeros({3}, DType::int64)});
  EXPECT_EQ(message_of([&] {
              ConcatDataset({numbered_set(2), one_field});
            }),
            "concat: samples of set 1 have 1 fields, those before it 2");
  EXPECT_EQ(message_of([] {
              ConcatDataset({numbered_set(2, 0, {"a"}), numbered_set(2, 0, {"b"})});
            }),
            "concat: set 1 has other classes than set 0");
  EXPECT_EQ(message_of([] { ConcatDataset({}); }), "concat: no data sets, at least one is needed");
}

}  // namespace
}  // namespace lockstep::data
