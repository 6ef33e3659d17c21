// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/memory_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "lockstep/tensor/alignment.h"
#include "tests/message.h"

namespace lockstep {
namespace {

constexpr std::size_t kKilobyte = 1 << 10;
constexpr std::size_t kMegabyte = 1 << 20;
constexpr std::int64_t kSpare = MemoryPool::kSpare;

std::int64_t bytes_of(std::size_t count) { return static_cast<std::int64_t>(count); }

// Addresses without memory behind them, and a limit.
class Addresses final : public MemorySource {
 public:
  std::byte* take(std::size_t size) override {
    if (held + size > room) return nullptr;
    held += size;
    most = std::max(most, held);
    auto* block = reinterpret_cast<std::byte*>(next_);
    next_ += size;  // neighbours, so that joining two of them would show
    taken_[block] = size;
    return block;
  }
  void give(std::byte* block, std::size_t size) override {
    EXPECT_EQ(taken_.at(block), size);
    taken_.erase(block);
    held -= size;
  }
  std::size_t largest() const override { return limit; }
  bool may_cut() const override { return cuts; }

  std::size_t room = std::size_t{1} << 50;
  std::size_t limit = std::size_t{1} << 50;
  bool cuts = true;
  std::size_t held = 0;
  std::size_t most = 0;

 private:
  std::uintptr_t next_ = std::uintptr_t{1} << 20;
  std::map<std::byte*, std::size_t> taken_;
};

TEST(MemoryPool, WhatATensorThatGrowsLeavesBehindGoesBack) {
  Addresses source;
  MemoryPool pool(source);
  std::size_t size = kMegabyte;
  std::byte* block = pool.take(size);
  while (size < 4096 * kMegabyte) {
    std::byte* larger = pool.take(size + size / 4);
    pool.give(block, size);
    block = larger;
    size += size / 4;
  }
  const std::int64_t peak = pool.stats().peak_bytes;
  EXPECT_LE(bytes_of(source.most), peak + peak / 2 + kSpare);
  EXPECT_EQ(bytes_of(source.held), pool.stats().live_bytes + pool.stats().pooled_bytes);
}

TEST(MemoryPool, ALoopAsksTheSourceNothingOnceItIsWarm) {
  Addresses source;
  MemoryPool pool(source);
  const auto step = [&] {
    std::vector<std::pair<std::byte*, std::size_t>> blocks;
    for (std::size_t size = 40; size < 100 * kMegabyte; size += size / 3)
      blocks.emplace_back(pool.take(size), size);
    for (const auto& [block, bytes] : blocks) pool.give(block, bytes);
  };
  step();
  const std::int64_t before = pool.stats().system_allocations;
  for (int i = 0; i < 1000; ++i) step();
  EXPECT_EQ(pool.stats().system_allocations, before);
}

TEST(MemoryPool, APeakThatIsLongPastIsForgotten) {
  Addresses source;
  MemoryPool pool(source);
  pool.give(pool.take(1024 * kMegabyte), 1024 * kMegabyte);
  EXPECT_EQ(source.held, 1024 * kMegabyte);
  for (std::int64_t i = 0; i < 2 * MemoryPool::kWindow; ++i) pool.give(pool.take(64), 64);
  EXPECT_LE(bytes_of(source.held), kSpare + 64);
  EXPECT_EQ(pool.stats().peak_bytes, bytes_of(1024 * kMegabyte));
}

TEST(MemoryPool, ALargerBlockIsCutAndJoinedAgain) {
  Addresses source;
  MemoryPool pool(source);
  std::byte* whole = pool.take(64 * kMegabyte);
  pool.give(whole, 64 * kMegabyte);
  std::byte* left = pool.take(20 * kMegabyte);
  std::byte* right = pool.take(40 * kMegabyte);
  EXPECT_EQ(left, whole);
  EXPECT_EQ(right, whole + 20 * kMegabyte);
  EXPECT_EQ(pool.stats().system_allocations, 1);
  EXPECT_EQ(pool.stats().pooled_bytes, bytes_of(4 * kMegabyte));
  pool.give(left, 20 * kMegabyte);
  pool.give(right, 40 * kMegabyte);
  EXPECT_EQ(pool.take(64 * kMegabyte), whole);
  EXPECT_EQ(pool.stats().system_allocations, 1);
}

TEST(MemoryPool, ASmallTensorDoesNotKeepALargeBlock) {
  Addresses source;
  MemoryPool pool(source);
  pool.give(pool.take(64 * kMegabyte), 64 * kMegabyte);
  pool.take(kMegabyte);
  pool.take(64);
  pool.release();
  EXPECT_EQ(source.held, kMegabyte + 64);
}

TEST(MemoryPool, ABlockOfWhichAPartIsLiveStays) {
  Addresses source;
  MemoryPool pool(source);
  pool.give(pool.take(64 * kKilobyte), 64 * kKilobyte);
  std::byte* part = pool.take(16 * kKilobyte);
  pool.release();
  EXPECT_EQ(source.held, 64 * kKilobyte);
  EXPECT_EQ(pool.stats().pooled_bytes, bytes_of(48 * kKilobyte));
  pool.give(part, 16 * kKilobyte);
  pool.release();
  EXPECT_EQ(source.held, 0u);
}

TEST(MemoryPool, SmallBlocksShareSlabsThatGoBackWhole) {
  Addresses source;
  MemoryPool pool(source);
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 100000; ++i) blocks.push_back(pool.take(64));
  EXPECT_LT(pool.stats().system_allocations, 120);
  EXPECT_LE(source.held, blocks.size() * 64 + 64 * kKilobyte);
  std::byte* last = blocks.back();
  blocks.pop_back();
  for (std::byte* block : blocks) pool.give(block, 64);
  pool.release();
  EXPECT_EQ(source.held, 64 * kKilobyte);
  pool.give(last, 64);
  pool.release();
  EXPECT_EQ(source.held, 0u);
  EXPECT_EQ(pool.stats().pooled_bytes, 0);
}

TEST(MemoryPool, WhatCanNeverFitIsRefusedBeforeAnythingGoesBack) {
  Addresses source;
  MemoryPool pool(source);
  pool.give(pool.take(8 * kMegabyte), 8 * kMegabyte);
  source.limit = 100 * kMegabyte;
  EXPECT_THROW(pool.take(128 * kMegabyte), OutOfMemory);
  EXPECT_EQ(source.held, 8 * kMegabyte);
}

TEST(MemoryPool, CountersAreRightAfterARefusal) {
  Addresses source;
  MemoryPool pool(source);
  source.room = 64 * kMegabyte;
  std::byte* block = pool.take(16 * kMegabyte);
  pool.give(pool.take(32 * kMegabyte), 32 * kMegabyte);
  const MemoryStats before = pool.stats();
  EXPECT_EQ(testing::message_of<OutOfMemory>([&] { pool.take(60 * kMegabyte); }),
            "memory: cannot allocate 67108864 bytes (16777216 bytes are in use)");
  EXPECT_EQ(pool.stats().allocations, before.allocations);
  EXPECT_EQ(pool.stats().system_allocations, before.system_allocations);
  EXPECT_EQ(pool.stats().live_bytes, before.live_bytes);
  EXPECT_EQ(pool.stats().pooled_bytes, 0);
  EXPECT_EQ(bytes_of(source.held), pool.stats().live_bytes);
  pool.give(block, 16 * kMegabyte);
  pool.take(64 * kMegabyte);  // fits once everything else has gone back
}

TEST(MemoryPool, BlocksAreWholeWhereTheSourceAsksForIt) {
  Addresses source;
  source.cuts = false;
  MemoryPool pool(source);
  pool.give(pool.take(64 * kKilobyte), 64 * kKilobyte);
  pool.take(16 * kKilobyte);
  for (int i = 0; i < 10; ++i) pool.take(64);
  EXPECT_EQ(pool.stats().system_allocations, 12);
}

// Against a map of what is live: no two blocks overlap, all is accounted for, and all goes back.
TEST(MemoryPool, RandomRequestsNeverOverlap) {
  Addresses source;
  MemoryPool pool(source);
  std::map<std::byte*, std::size_t> live;
  std::mt19937 random(7);
  std::int64_t most = 0;
  for (int i = 0; i < 200000; ++i) {
    if (live.empty() || random() % 16 < 8) {
      const std::size_t bytes = 1 + random() % (std::size_t{1} << (random() % 26));
      std::byte* block = pool.take(bytes);
      const auto next = live.upper_bound(block);
      if (next != live.end()) {
        ASSERT_LE(block + bytes, next->first);
      }
      if (next != live.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, block);
      }
      live[block] = bytes;
    } else {
      auto chosen = live.lower_bound(
          std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()))->first);
      pool.give(chosen->first, chosen->second);
      live.erase(chosen);
    }
    most = std::max(most, pool.stats().live_bytes);
    ASSERT_EQ(bytes_of(source.held), pool.stats().live_bytes + pool.stats().pooled_bytes);
  }
  EXPECT_EQ(pool.stats().peak_bytes, most);
  EXPECT_LE(bytes_of(source.most), 2 * most + kSpare);
  for (const auto& [block, bytes] : live) pool.give(block, bytes);
  pool.release();
  EXPECT_EQ(source.held, 0u);
}

}  // namespace
}  // namespace lockstep
