// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/stream.h"

#include <gtest/gtest.h>

#include <thread>

#include "lockstep/data/loader.h"
#include "tests/data/number_at.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using testing::message_of;
using testing::number_at;

constexpr std::int64_t kNone = -1;

// Counts to `length`; number `bad` is Corrupt.
class CountingStream final : public SampleStream {
 public:
  explicit CountingStream(std::int64_t length, std::int64_t bad = kNone)
      : length_(length), bad_(bad) {}
  std::optional<Fields> next() override {
    if (at_ == length_) return std::nullopt;
    const std::int64_t value = at_++;
    if (value == bad_) throw Corrupt("sample {} is bad", value);
    const Tensor number = Tensor::from(std::vector<std::int64_t>{value}, {});
    return Fields{number, number};
  }

 private:
  std::int64_t length_, bad_, at_ = 0;
};

OpenStream counting_stream(std::int64_t length, std::int64_t bad = kNone) {
  return [=] { return std::make_unique<CountingStream>(length, bad); };
}

TEST(Stream, SamplesAreCountedOnThroughItsEnd) {
  const StreamDataset dataset(counting_stream(7), 5);
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(number_at(dataset, i), i % 7);
  EXPECT_EQ(dataset.passes(), 8);
}

TEST(Stream, ASampleIsAFunctionOfItsIndexInAnyOrderOfAsking) {
  const StreamDataset dataset(counting_stream(7), 5, 4);
  for (const std::int64_t i : {3, 2, 0, 40, 39, 6, 7, 8, 100000, 5, 5, 13, 14})
    EXPECT_EQ(number_at(dataset, i), i % 7) << i;
}

TEST(Stream, NeighboursInAnyOrderAreReadOnce) {
  const StreamDataset dataset(counting_stream(1000), 1000);
  for (std::int64_t begin = 0; begin < 1000; begin += 10)
    for (std::int64_t i = 9; i >= 0; --i) EXPECT_EQ(number_at(dataset, begin + i), begin + i);
  EXPECT_EQ(dataset.passes(), 1);
}

TEST(Stream, WhatOtherWorkersTakeIsDropped) {
  const StreamDataset dataset(counting_stream(100000), 100000, 16);
  for (std::int64_t i = 0; i < 100000; i += 4) EXPECT_EQ(number_at(dataset, i), i);
  EXPECT_EQ(dataset.passes(), 1);
}

TEST(Stream, AnEmptyOneSaysSo) {
  const StreamDataset dataset(counting_stream(0), 5);
  EXPECT_EQ(message_of([&] { dataset.sample(0); }), "stream: it has no sample");
  EXPECT_EQ(message_of([&] { dataset.sample(9); }), "stream: it has no sample");
  EXPECT_EQ(message_of([] { StreamDataset(counting_stream(1), 0); }),
            "stream: an epoch of 0 samples, expected 1 or more");
}

TEST(Stream, ABadSampleIsTheOneThatIsAskedForAlone) {
  const StreamDataset dataset(counting_stream(10, 4), 10);
  EXPECT_EQ(number_at(dataset, 6), 6);
  EXPECT_EQ(message_of<Corrupt>([&] { dataset.sample(4); }), "sample 4 is bad");
  EXPECT_EQ(number_at(dataset, 5), 5);
  EXPECT_EQ(message_of<Corrupt>([&] { dataset.sample(14); }), "sample 4 is bad");
}

// All batches of `steps` steps, a loader for each range of shards.
std::vector<std::vector<std::int64_t>> dealt(std::int64_t workers, int threads) {
  constexpr std::int64_t kShards = 4, kBatch = 8, kSteps = 12;
  std::vector<std::vector<std::int64_t>> shards(kShards);
  for (std::int64_t worker = 0; worker < workers; ++worker) {
    const std::int64_t count = kShards / workers, first = worker * count;
    Loader loader(std::make_shared<StreamDataset>(counting_stream(37), 24),
                  ShardSampler(stream_sampler(24), kBatch, kShards),
                  {.threads = threads, .first_shard = first, .shards = count});
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const std::vector<Fields> batches = loader.step(step);
      for (std::int64_t s = 0; s < count; ++s)
        for (const std::int64_t value :
             batches[static_cast<std::size_t>(s)].front().to_vector<std::int64_t>())
          shards[static_cast<std::size_t>(first + s)].push_back(value);
    }
  }
  return shards;
}

TEST(Stream, ShardsAreDealtTheSameSamplesOnAnyNumberOfWorkersAndThreads) {
  const auto expected = dealt(1, 0);
  EXPECT_EQ(expected[1][0], 2);
  EXPECT_EQ(expected[0][2 * 5], 8 * 5 % 37);  // the sixth step goes on, past the end of the stream
  EXPECT_EQ(dealt(2, 3), expected);
  EXPECT_EQ(dealt(4, 1), expected);
}

}  // namespace
}  // namespace lockstep::data
