// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "lockstep/data/detail/draw.h"
#include "tests/data/images.h"
#include "tests/message.h"
#include "tests/seed.h"

namespace lockstep::data {
namespace {

using lockstep::testing::message_of;
using testing_images::random_image;

// Small images made from their numbers, at a speed and with faults as a test wants them.
class TestDataset final : public Dataset {
 public:
  std::int64_t samples = 40;
  std::set<std::int64_t> bad;
  std::int64_t odd = -1;         // this sample has another shape
  std::uint32_t slow_under = 0;  // microseconds of the longest delay
  std::uint64_t delay_seed = 0;
  mutable std::atomic<std::uint64_t> asked = 0;
  std::atomic<std::uint64_t> allowed = ~std::uint64_t{0};
  mutable std::atomic<std::uint64_t> beyond = 0;  // samples asked for, though not allowed

  std::int64_t size() const override { return samples; }
  Fields sample(std::int64_t index) const override {
    const std::uint64_t number = asked++;
    if (number >= allowed) ++beyond;
    delay(number);
    if (bad.contains(index)) throw Corrupt("img{}.png: does not decode", index);
    const std::int64_t width = index == odd ? 7 : 6;
    return {random_image({5, width, 3}, DType::uint8, static_cast<std::uint64_t>(index)),
            Tensor::scalar(static_cast<double>(index), DType::int64)};
  }

 private:
  void delay(std::uint64_t draw) const {
    if (slow_under == 0) return;
    const std::uint32_t time = random_bits({delay_seed}, draw) % slow_under;
    std::this_thread::sleep_for(std::chrono::microseconds(time));
  }
};

Transform augmentation() {
  return compose({random_crop(5, 6, 2), random_flip_left_right(), to_tensor()});
}

ShardSampler sampler_of(const Dataset& dataset) {
  return {random_sampler(dataset.size(), 3), 12, 3};
}

using Values = std::vector<float>;

Values flat(const std::vector<Fields>& shards) {
  Values values;
  for (const Fields& fields : shards)
    for (const Tensor& field : fields)
      for (float value : field.to_vector<float>()) values.push_back(value);
  return values;
}

std::vector<std::int64_t> labels(const std::vector<Fields>& shards) {
  std::vector<std::int64_t> values;
  for (const Fields& fields : shards)
    for (std::int64_t value : fields.back().to_vector<std::int64_t>()) values.push_back(value);
  return values;
}

std::vector<Values> steps_of(const std::shared_ptr<TestDataset>& dataset, LoaderOptions options,
                             std::int64_t first, std::int64_t count) {
  Loader loader(dataset, sampler_of(*dataset), std::move(options));
  std::vector<Values> result;
  for (std::int64_t step = first; step < first + count; ++step)
    result.push_back(flat(loader.step(step)));
  return result;
}

// Each sample on its own, with the words that are its place's.
void expect_samples(const Fields& batch, const Dataset& dataset,
                    const std::vector<std::int64_t>& indices, RandomKey key) {
  Values images;
  for (std::int64_t index : indices) {
    const Tensor image = augmentation().apply(dataset.sample(index)[0], key);
    for (float value : image.to_vector<float>()) images.push_back(value);
    key.use += augmentation().uses;
  }
  EXPECT_EQ(batch[0].info().str(), "float32[4, 3, 5, 6]");
  EXPECT_EQ(batch[0].to_vector<float>(), images);
  EXPECT_EQ(batch[1].to_vector<std::int64_t>(), indices);
}

TEST(Loader, GivesWhatTheSamplerDealtWithEachSampleUnderItsOwnKey) {
  const auto dataset = std::make_shared<TestDataset>();
  Loader loader(dataset, sampler_of(*dataset), {.transform = augmentation(), .seed = 9});
  ShardSampler sampler = sampler_of(*dataset);
  EXPECT_EQ(loader.steps_per_epoch(), 3);
  for (std::int64_t step = 0; step < 7; ++step) {
    const std::vector<Fields> shards = loader.step(step);
    ASSERT_EQ(shards.size(), 3u);
    for (std::uint32_t shard = 0; shard < 3; ++shard) {
      const RandomKey key{9 ^ detail::kTransformStream, static_cast<std::uint32_t>(step), shard, 0};
      expect_samples(shards[shard], *dataset, sampler.samples(step, shard), key);
    }
  }
}

TEST(Loader, ThreadsPrefetchAndDelaysChangeNothing) {
  const auto quick = std::make_shared<TestDataset>();
  const auto slow = std::make_shared<TestDataset>();
  slow->slow_under = 300;
  slow->delay_seed = lockstep::testing::seed_of_this_run();
  const auto expected = steps_of(quick, {.transform = augmentation(), .threads = 0}, 0, 8);
  for (int threads : {0, 1, 3})
    for (std::int64_t prefetch : {1, 2, 5}) {
      LoaderOptions options{.transform = augmentation(), .threads = threads, .prefetch = prefetch};
      EXPECT_EQ(steps_of(slow, options, 0, 8), expected) << threads << ", " << prefetch;
    }
}

TEST(Loader, BeginsAnywhereAndJumpsAsAResumedRunDoes) {
  const auto dataset = std::make_shared<TestDataset>();
  const LoaderOptions options{.transform = augmentation(), .threads = 2};
  const auto expected = steps_of(dataset, options, 0, 9);
  EXPECT_EQ(steps_of(dataset, options, 5, 1)[0], expected[5]);
  Loader loader(dataset, sampler_of(*dataset), options);
  for (std::size_t step : {4u, 5u, 1u, 1u, 8u, 0u})
    EXPECT_EQ(flat(loader.step(static_cast<std::int64_t>(step))), expected[step]);
}

TEST(Loader, APartOfTheShardsIsTheSameAsThatPartOfAll) {
  const auto dataset = std::make_shared<TestDataset>();
  Loader all(dataset, sampler_of(*dataset), {.transform = augmentation(), .seed = 2});
  Loader part(dataset, sampler_of(*dataset),
              {.transform = augmentation(), .seed = 2, .first_shard = 1, .shards = 2});
  for (std::int64_t step = 0; step < 4; ++step) {
    std::vector<Fields> shards = all.step(step);
    shards.erase(shards.begin());
    EXPECT_EQ(flat(part.step(step)), flat(shards));
  }
}

TEST(Loader, OneThatIsToldMakesWhatItIsToldInThatOrder) {
  const auto dataset = std::make_shared<TestDataset>();
  Loader all(dataset, sampler_of(*dataset), {.transform = augmentation(), .seed = 2});
  const auto expected = [&](std::int64_t step, std::int64_t shard) {
    return flat({all.step(step).at(static_cast<std::size_t>(shard))});
  };
  for (int threads : {0, 2}) {
    LoaderOptions options{.transform = augmentation(), .seed = 2, .threads = threads, .shards = 1};
    options.told = true;
    Loader told(dataset, sampler_of(*dataset), options);
    told.expect(4, 2);
    told.expect(0, 1);
    EXPECT_EQ(flat(told.take()), expected(4, 2));
    told.expect(1, 0);
    EXPECT_EQ(flat(told.take()), expected(0, 1));
    told.forget();
    told.expect(4, 0);
    EXPECT_EQ(flat(told.take()), expected(4, 0));
    EXPECT_EQ(message_of([&] { told.expect(0, 3); }),
              "loader: asked for 1 shards from 3 on, there are 3");
  }
}

TEST(Loader, AnotherSeedStepsShardsAndPlacesDrawDifferently) {
  const auto dataset = std::make_shared<TestDataset>();
  dataset->samples = 1;
  const auto value_of = [&](std::uint64_t seed, std::int64_t step) {
    const std::vector<double> one{1.0};
    ShardSampler sampler(weighted_sampler(one, 16, 0), 16, 2);
    Loader loader(dataset, sampler, {.transform = random_rotation(180), .seed = seed});
    return flat(loader.step(step));
  };
  const Values values = value_of(1, 0);
  std::set<Values> images;
  for (std::size_t shard = 0; shard < 2; ++shard)
    for (std::size_t i = 0; i < 8; ++i) {
      const auto first =
          values.begin() + static_cast<std::ptrdiff_t>(shard * (8 * 90 + 8) + i * 90);
      images.insert(Values(first, first + 90));
    }
  EXPECT_EQ(images.size(), 16u);
  EXPECT_NE(value_of(2, 0), values);
  EXPECT_NE(value_of(1, 1), values);
}

TEST(Loader, WithoutATransformSamplesAreStackedAsTheyAre) {
  const auto dataset = std::make_shared<TestDataset>();
  Loader loader(dataset, {sequential_sampler(40), 8, 2}, {});
  const std::vector<Fields> shards = loader.step(1);
  EXPECT_EQ(shards[0][0].info().str(), "uint8[4, 5, 6, 3]");
  EXPECT_EQ(labels(shards), (std::vector<std::int64_t>{8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(Loader, ATransformOfWholeBatchesGivesTheBitsOfOneSampleAfterAnother) {
  const auto dataset = std::make_shared<TestDataset>();
  Transform transform = to_tensor({0.2f}, {0.7f});
  const auto whole = steps_of(dataset, {.transform = transform}, 0, 3);
  transform.apply_batch = nullptr;
  EXPECT_EQ(steps_of(dataset, {.transform = transform}, 0, 3), whole);
}

TEST(Loader, ATransformOfAllFieldsNeedsNoOther) {
  const auto dataset = std::make_shared<TestDataset>();
  Transform transform;
  transform.apply_fields = [](Fields sample, const RandomKey&, std::int64_t number) {
    return Fields{Tensor::full({2}, static_cast<double>(number)), sample[1]};
  };
  Loader loader(dataset, {sequential_sampler(40), 8, 2}, {.transform = transform});
  const std::vector<Fields> shards = loader.step(1);
  EXPECT_EQ(shards[1][0].to_vector<int>(), (std::vector<int>{12, 12, 13, 13, 14, 14, 15, 15}));
}

TEST(Loader, ASampleThatLacksAFieldIsNamed) {
  const auto dataset = std::make_shared<TestDataset>();
  Transform transform;
  for (const std::int64_t bad : {8, 10}) {
    transform.apply_fields = [bad](Fields sample, const RandomKey&, std::int64_t number) {
      return number == bad ? Fields{sample[0], Tensor()} : sample;
    };
    EXPECT_EQ(message_of([&] {
                load_batch(*dataset, std::vector<std::int64_t>{8, 9, 10}, transform);
              }),
              fmt::format("batch: field 1 of sample {} is undefined", bad));
  }
}

TEST(Loader, AnErrorOfASampleComesWithItsOwnStep) {
  for (int threads : {0, 1, 3}) {
    const auto dataset = std::make_shared<TestDataset>();
    dataset->bad = {30, 31};
    Loader loader(dataset, {sequential_sampler(40), 8, 2},
                  {.transform = augmentation(), .threads = threads});
    for (std::int64_t step = 0; step < 3; ++step) EXPECT_EQ(loader.step(step).size(), 2u);
    EXPECT_EQ(message_of<Corrupt>([&] { loader.step(3); }), "img30.png: does not decode");
    EXPECT_EQ(labels(loader.step(4)).front(), 32);
    EXPECT_EQ(message_of<Corrupt>([&] { loader.step(3); }), "img30.png: does not decode");
  }
}

TEST(Loader, OfSeveralErrorsTheFirstShardsIsTold) {
  const auto dataset = std::make_shared<TestDataset>();
  dataset->slow_under = 2000;
  dataset->delay_seed = lockstep::testing::seed_of_this_run();
  dataset->bad = {2, 3, 5, 7};
  for (int i = 0; i < 10; ++i) {
    Loader loader(dataset, {sequential_sampler(40), 8, 4}, {.threads = 3});
    EXPECT_EQ(message_of<Corrupt>([&] { loader.step(0); }), "img2.png: does not decode");
  }
}

TEST(Loader, GoesOnPastBadSamplesWhenToldTo) {
  for (bool changed : {false, true})
    for (int threads : {0, 3}) {
      const auto dataset = std::make_shared<TestDataset>();
      dataset->bad = {2, 3, 6, 39};
      std::vector<std::string> messages;
      LoaderOptions options{.threads = threads, .skip_bad = true};
      options.on_bad = [&](const std::string& message) { messages.push_back(message); };
      if (changed) options.transform = augmentation();
      Loader loader(dataset, {sequential_sampler(40), 8, 2}, options);
      EXPECT_EQ(labels(loader.step(0)), (std::vector<std::int64_t>{0, 1, 4, 4, 4, 5, 7, 7}));
      EXPECT_EQ(messages, (std::vector<std::string>{
                              "img2.png: does not decode", "img3.png: does not decode",
                              "img3.png: does not decode", "img6.png: does not decode"}));
      EXPECT_EQ(labels(loader.step(4)).back(), 0);
    }
}

TEST(Loader, ASetWithoutOneGoodSampleEnds) {
  const auto dataset = std::make_shared<TestDataset>();
  for (std::int64_t i = 0; i < 40; ++i) dataset->bad.insert(i);
  Loader loader(dataset, {sequential_sampler(40), 8, 2}, {.skip_bad = true});
  EXPECT_EQ(message_of<Corrupt>([&] { loader.step(0); }),
            "loader: none of 40 samples is good; the last one: img39.png: does not decode");
}

TEST(Loader, SamplesOfDifferentShapesAreNamed) {
  const auto dataset = std::make_shared<TestDataset>();
  dataset->odd = 2;
  Loader loader(dataset, {sequential_sampler(40), 8, 2}, {.transform = random_flip_left_right()});
  EXPECT_EQ(message_of([&] { loader.step(0); }),
            "batch: sample 2 is uint8[5, 7, 3], int64[], the batch's first is uint8[5, 6, 3], "
            "int64[]");
}

// A shard's samples would take 400 times as long as one: the loader ends after the one in hand.
TEST(Loader, EndsAfterTheSampleInHand) {
  const auto dataset = std::make_shared<TestDataset>();
  dataset->samples = 1000;
  dataset->slow_under = 20000;
  {
    Loader loader(dataset, {sequential_sampler(1000), 400, 1},
                  {.transform = augmentation(), .threads = 3});
    while (dataset->asked < 3) std::this_thread::yield();
  }
  const std::uint64_t asked = dataset->asked;
  EXPECT_LT(asked, 100u);
  EXPECT_EQ(dataset->asked, asked);
}

TEST(Loader, MakesNoMoreAheadThanItWasTold) {
  const auto dataset = std::make_shared<TestDataset>();
  dataset->allowed = 8;
  Loader loader(dataset, {sequential_sampler(40), 4, 1},
                {.transform = augmentation(), .threads = 3, .prefetch = 2});
  for (std::int64_t step = 0; step < 8; ++step) {
    while (dataset->asked < dataset->allowed) std::this_thread::yield();
    dataset->allowed += 4;
    loader.step(step);
  }
  EXPECT_EQ(dataset->beyond, 0u);
}

TEST(Loader, CanBeMadeAndDroppedWithoutAStep) {
  const auto dataset = std::make_shared<TestDataset>();
  for (int i = 0; i < 50; ++i)
    Loader(dataset, sampler_of(*dataset), {.transform = augmentation(), .threads = 3});
  EXPECT_EQ(dataset.use_count(), 1) << "nobody is left who could read from it";
}

TEST(Loader, RefusesWrongOptions) {
  const auto dataset = std::make_shared<TestDataset>();
  const auto message = [&](LoaderOptions options) {
    return message_of([&] { Loader(dataset, sampler_of(*dataset), options); });
  };
  EXPECT_EQ(message({.threads = -1}), "loader: threads is -1, expected 0 to 1024");
  EXPECT_EQ(message({.prefetch = 0}), "loader: prefetch is 0, expected 1 or more");
  EXPECT_EQ(message({.first_shard = 2, .shards = 2}),
            "loader: asked for 2 shards from 2 on, there are 3");
  EXPECT_EQ(message_of([&] { Loader(nullptr, sampler_of(*dataset), {}); }),
            "loader: there is no data set");
  Loader loader(dataset, sampler_of(*dataset), {});
  EXPECT_EQ(message_of([&] { loader.step(-1); }), "loader: step is -1, expected 0 or more");
}

TEST(LoadBatch, IsWhatALoaderWouldMake) {
  const TestDataset dataset;
  const std::vector<std::int64_t> indices{7, 3, 3};
  const Fields batch = load_batch(dataset, indices, augmentation(), {5});
  EXPECT_EQ(batch[0].info().str(), "float32[3, 3, 5, 6]");
  EXPECT_EQ(batch[1].to_vector<std::int64_t>(), indices);
  EXPECT_EQ(load_batch(dataset, indices)[0].info().str(), "uint8[3, 5, 6, 3]");
}

}  // namespace
}  // namespace lockstep::data
