// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/message.h"

namespace lockstep::data {
namespace {

using lockstep::testing::message_of;
using Numbers = std::vector<std::int64_t>;

Numbers numbers_in(const Tensor& tensor) { return tensor.to_vector<std::int64_t>(); }

TEST(FitLength, CutsAndPads) {
  EXPECT_EQ(fit_length(Numbers{1, 2, 3}, 2, 9), (Numbers{1, 2}));
  EXPECT_EQ(fit_length(Numbers{1, 2, 3}, 5, 9), (Numbers{1, 2, 3, 9, 9}));
  EXPECT_EQ(fit_length(Numbers{1, 2, 3}, 5, 9, PadSide::begin), (Numbers{9, 9, 1, 2, 3}));
  EXPECT_EQ(fit_length(Numbers{1, 2, 3}, 2, 9, PadSide::begin), (Numbers{1, 2}));
  EXPECT_EQ(fit_length(Numbers{}, 1, 9), (Numbers{9}));
  EXPECT_EQ(message_of([] { fit_length(Numbers{1}, -1, 0); }),
            "text: length is -1, expected 0 or more");
}

TEST(TokenWindows, LabelsAreOneTokenFurtherOn) {
  const TokenWindows windows({10, 11, 12, 13, 14, 15, 16}, 3);
  ASSERT_EQ(windows.size(), 2);
  EXPECT_EQ(numbers_in(windows.sample(0)[0]), (Numbers{10, 11, 12}));
  EXPECT_EQ(numbers_in(windows.sample(0)[1]), (Numbers{11, 12, 13}));
  EXPECT_EQ(numbers_in(windows.sample(1)[0]), (Numbers{13, 14, 15}));
  EXPECT_EQ(numbers_in(windows.sample(1)[1]), (Numbers{14, 15, 16}));
}

TEST(TokenWindows, MayOverlap) {
  const TokenWindows windows({10, 11, 12, 13, 14, 15}, 3, 1);
  ASSERT_EQ(windows.size(), 3);
  const Fields batch = windows.batch(Numbers{2, 0});
  EXPECT_EQ(batch[0].shape(), (Shape{2, 3}));
  EXPECT_EQ(numbers_in(batch[1]), (Numbers{13, 14, 15, 11, 12, 13}));
}

TEST(TokenWindows, RefuseATextThatIsTooShort) {
  EXPECT_EQ(message_of([] {
              TokenWindows({1, 2, 3}, 3);
            }),
            "text: has 3 tokens, a window of 3 and the token after it need 4");
  EXPECT_EQ(message_of([] {
              TokenWindows({1, 2, 3}, 0);
            }),
            "text: windows of 0 tokens every 0, expected 1 or more");
  EXPECT_EQ(message_of([] {
              TokenWindows({1, 2, 3}, 1).sample(2);
            }),
            "dataset: sample 2 of 2 samples");
}

TEST(TextClassification, TextsAreBroughtToOneLength) {
  const TextClassification texts({{5, 6}, {7, 8, 9, 10}}, {1, 0},
                                 {.bounds = {3}, .padding = 0, .class_names = {"ham", "spam"}});
  const Fields batch = texts.batch(Numbers{0, 1});
  EXPECT_EQ(numbers_in(batch[0]), (Numbers{5, 6, 0, 7, 8, 9}));
  EXPECT_EQ(numbers_in(batch[1]), (Numbers{1, 0}));
  EXPECT_EQ(batch[1].shape(), (Shape{2}));
  EXPECT_EQ(texts.class_names()[1], "spam");
}

TEST(TextClassification, OrToTheLengthOfTheirBucket) {
  const TextClassification texts({{5}, {7, 8, 9}, {1, 2, 3, 4, 5, 6}}, {0, 0, 0},
                                 {.bounds = {2, 4}});
  EXPECT_EQ(numbers_in(texts.sample(0)[0]), (Numbers{5, 1}));
  EXPECT_EQ(numbers_in(texts.sample(1)[0]), (Numbers{7, 8, 9, 1}));
  EXPECT_EQ(numbers_in(texts.sample(2)[0]), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(texts.lengths(), (Numbers{1, 3, 6}));
}

TEST(TextClassification, RefusesWhatDoesNotFit) {
  EXPECT_EQ(message_of([] {
              TextClassification({{1}}, {0, 1}, {});
            }),
            "text: 1 texts and 2 labels, expected as many of each");
  EXPECT_EQ(message_of([] {
              TextClassification({{1}}, {2}, {.class_names = {"ham", "spam"}});
            }),
            "text: label 2 of text 0 is no class, there are 2");
  EXPECT_EQ(message_of([] { TextClassification({{1}}, {0}, {.bounds = {}}); }),
            "text: no length to bring texts to");
  EXPECT_EQ(message_of([] {
              TextClassification({{1}}, {0}, {.bounds = {4, 4}});
            }),
            "text: length 4 follows 4, expected 1 or more and ascending");
}

Numbers some_lengths() {
  Numbers lengths;
  for (std::int64_t i = 0; i < 103; ++i) lengths.push_back(i * 7 % 40);
  return lengths;
}

TEST(BucketSampler, EveryRunIsOfOneBucketAndNoSampleIsThereTwice) {
  const Numbers lengths = some_lengths(), bounds{10, 20, 30};
  const SamplerPtr sampler = bucket_sampler(lengths, bounds, 8, 1);
  for (std::int64_t epoch : {0, 1}) {
    const Numbers order = sampler->epoch(epoch);
    ASSERT_EQ(static_cast<std::int64_t>(order.size()), sampler->size());
    EXPECT_GT(order.size(), 103u - 8 * 3);
    EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto bound = [&](std::int64_t sample) {
        return bucket_bound(lengths[static_cast<std::size_t>(sample)], bounds);
      };
      EXPECT_EQ(bound(order[i]), bound(order[i / 8 * 8]));
    }
  }
}

TEST(BucketSampler, EpochsPutOtherSamplesTogether) {
  const SamplerPtr sampler = bucket_sampler(Numbers(64, 5), {10}, 8, 1);
  const auto runs = [&](std::int64_t epoch) {
    const Numbers order = sampler->epoch(epoch);
    std::set<std::set<std::int64_t>> result;
    for (auto run = order.begin(); run != order.end(); run += 8) result.insert({run, run + 8});
    return result;
  };
  EXPECT_EQ(runs(0).size(), 8u);
  EXPECT_NE(runs(0), runs(1));
}

TEST(BucketSampler, IsAFunctionOfSeedAndEpoch) {
  const auto order = [](std::uint64_t seed, std::int64_t epoch) {
    return bucket_sampler(some_lengths(), {10, 20, 30}, 8, seed)->epoch(epoch);
  };
  EXPECT_EQ(order(1, 2), order(1, 2));
  EXPECT_NE(order(1, 2), order(1, 3));
  EXPECT_NE(order(1, 2), order(2, 2));
  EXPECT_EQ(message_of([] {
              bucket_sampler({}, {4, 2}, 8, 1);
            }),
            "text: length 2 follows 4, expected 1 or more and ascending");
  EXPECT_EQ(message_of([] { bucket_sampler({}, {4}, 0, 1); }),
            "bucket_sampler: batch is 0, expected 1 or more");
}

}  // namespace
}  // namespace lockstep::data
