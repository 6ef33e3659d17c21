// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/dataset.h"

#include <gtest/gtest.h>

#include "tests/message.h"

namespace lockstep::data {
namespace {

using testing::message_of;

ArrayDataset three_samples() {
  return ArrayDataset({Tensor::from<float>(std::vector<float>{0, 1, 10, 11, 20, 21}, {3, 2}),
                       Tensor::from<std::int64_t>(std::vector<std::int64_t>{5, 6, 7}, {3})},
                      {"a", "b"});
}

// Sample i is [i] of a length that may depend on i.
class CountingDataset final : public Dataset {
 public:
  explicit CountingDataset(std::vector<std::int64_t> lengths) : lengths_(std::move(lengths)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(lengths_.size()); }
  Fields sample(std::int64_t index) const override {
    const std::int64_t length = lengths_[static_cast<std::size_t>(index)];
    Fields fields{Tensor::full({length}, static_cast<double>(index), DType::int32)};
    if (index != 3) fields.push_back(Tensor::scalar(static_cast<double>(index), DType::int64));
    return fields;
  }

 private:
  std::vector<std::int64_t> lengths_;
};

TEST(ArrayDataset, ASampleIsARowOfEachArray) {
  const Fields sample = three_samples().sample(1);
  ASSERT_EQ(sample.size(), 2);
  EXPECT_EQ(sample[0].to_vector<float>(), (std::vector<float>{10, 11}));
  EXPECT_EQ(sample[1].shape(), Shape{});
  EXPECT_EQ(sample[1].item(), 6);
}

TEST(ArrayDataset, ABatchGathersRowsInTheirOrder) {
  const std::vector<std::int64_t> indices = {2, 0, 2};
  const Fields batch = three_samples().batch(indices);
  EXPECT_EQ(batch[0].shape(), (Shape{3, 2}));
  EXPECT_EQ(batch[0].to_vector<float>(), (std::vector<float>{20, 21, 0, 1, 20, 21}));
  EXPECT_EQ(batch[1].to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 5, 7}));
}

TEST(ArrayDataset, ABatchIsWhatTheSamplesStackTo) {
  const ArrayDataset set = three_samples();
  const std::vector<std::int64_t> indices = {1, 2};
  const Fields gathered = set.batch(indices);
  const Fields stacked = set.Dataset::batch(indices);
  EXPECT_EQ(gathered[0].to_vector<float>(), stacked[0].to_vector<float>());
  EXPECT_EQ(gathered[1].info(), stacked[1].info());
}

TEST(ArrayDataset, ArraysThatAreNotDenseAreTakenToo) {
  const Tensor base = Tensor::from<float>(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const ArrayDataset set({base.window({3, 2}, {1, 3}, 0)});
  EXPECT_EQ(set.sample(1)[0].to_vector<float>(), (std::vector<float>{2, 5}));
}

TEST(ArrayDataset, KnowsItsSizeAndClasses) {
  EXPECT_EQ(three_samples().size(), 3);
  EXPECT_EQ(three_samples().class_names(), (std::vector<std::string>{"a", "b"}));
}

TEST(ArrayDataset, RefusesASampleThatIsNotThere) {
  const ArrayDataset set = three_samples();
  EXPECT_EQ(message_of([&] { set.sample(3); }), "dataset: sample 3 of 3 samples");
  EXPECT_EQ(message_of([&] {
              set.batch(std::vector<std::int64_t>{0, -1});
            }),
            "dataset: sample -1 of 3 samples");
}

TEST(ArrayDataset, RefusesArraysThatDoNotBelongTogether) {
  EXPECT_EQ(message_of([] {
              ArrayDataset({Tensor::zeros({2}), Tensor::zeros({3})});
            }),
            "dataset: array 1 has 3 samples, array 0 has 2");
  EXPECT_EQ(message_of([] { ArrayDataset({Tensor::scalar(1)}); }),
            "dataset: array 0 is a scalar, it needs an axis of samples");
  EXPECT_EQ(message_of([] { ArrayDataset(Fields{}); }),
            "dataset: no arrays, at least one is needed");
}

TEST(Dataset, StacksItsSamplesByDefault) {
  const Fields batch = CountingDataset({2, 2, 2}).batch(std::vector<std::int64_t>{2, 1});
  EXPECT_EQ(batch[0].info().str(), "int32[2, 2]");
  EXPECT_EQ(batch[0].to_vector<int>(), (std::vector<int>{2, 2, 1, 1}));
  EXPECT_EQ(batch[1].to_vector<int>(), (std::vector<int>{2, 1}));
}

// Its second sample lacks what the first has.
class Lacking final : public Dataset {
 public:
  std::int64_t size() const override { return 2; }
  Fields sample(std::int64_t index) const override {
    return {index == 0 ? Tensor::zeros({2}) : Tensor()};
  }
};

TEST(Dataset, NamesTheSampleThatLacksAField) {
  for (const std::vector<std::int64_t>& asked : {std::vector<std::int64_t>{0, 1}, {1, 0}})
    EXPECT_EQ(message_of([&] { Lacking().batch(asked); }),
              "batch: field 0 of sample 1 is undefined");
}

TEST(Dataset, RefusesToStackWhatDiffers) {
  const CountingDataset set({2, 2, 5, 2});
  EXPECT_EQ(message_of([&] {
              set.batch(std::vector<std::int64_t>{1, 2});
            }),
            "batch: sample 2 is int32[5], int64[], the batch's first is int32[2], int64[]");
  EXPECT_EQ(message_of([&] {
              set.batch(std::vector<std::int64_t>{0, 3});
            }),
            "batch: sample 3 is int32[2], the batch's first is int32[2], int64[]");
  EXPECT_EQ(message_of([&] { set.batch({}); }), "batch: no samples were asked for");
}

}  // namespace
}  // namespace lockstep::data
