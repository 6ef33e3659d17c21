// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/storage.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "lockstep/tensor/alignment.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::message_of;

// A device of its own for each test, so that its counters start at zero.
Device unused_device() {
  static int next = 1000;
  return cpu(next++);
}

std::size_t address(const std::byte* data) { return reinterpret_cast<std::size_t>(data); }

TEST(Alignment, RoomIsOfWholeLines) {
  EXPECT_EQ(aligned(0), 0u);
  EXPECT_EQ(aligned(1), 64u);
  EXPECT_EQ(aligned(64), 64u);
  EXPECT_EQ(aligned(65), 128u);
}

TEST(Storage, BlocksOfAnySizeAreAligned) {
  const Device device = unused_device();
  for (std::size_t bytes : {0, 1, 63, 64, 65, 4096, 4097, 100000, 12345678})
    EXPECT_EQ(address(Storage::allocate(bytes, device)->data()) % kAlignment, 0u) << bytes;
}

TEST(Storage, AFreedBlockIsGivenOutAgain) {
  const Device device = unused_device();
  const std::byte* first = Storage::allocate(1000, device)->data();
  EXPECT_EQ(Storage::allocate(900, device)->data(), first);
  const MemoryStats stats = memory_stats(device);
  EXPECT_EQ(stats.allocations, 2);
  EXPECT_EQ(stats.system_allocations, 1);
}

TEST(Storage, CountersFollowWhatIsLive) {
  const Device device = unused_device();
  {
    const auto a = Storage::allocate(1024, device);
    const auto b = Storage::allocate(2048, device);
    EXPECT_EQ(memory_stats(device).live_bytes, 3072);
  }
  MemoryStats stats = memory_stats(device);
  EXPECT_EQ(stats.live_bytes, 0);
  EXPECT_EQ(stats.peak_bytes, 3072);
  EXPECT_EQ(stats.pooled_bytes, 3072);
  reset_peak_memory(device);
  EXPECT_EQ(memory_stats(device).peak_bytes, 0);
  release_unused_memory(device);
  EXPECT_EQ(memory_stats(device).pooled_bytes, 0);
}

TEST(Storage, RoundingWastesAtMostAQuarterOfALargeBlock) {
  for (std::size_t bytes : {4097, 10000, 70001, 1000000, 33554433}) {
    const Device device = unused_device();
    const auto block = Storage::allocate(bytes, device);
    EXPECT_GE(memory_stats(device).live_bytes, static_cast<std::int64_t>(bytes));
    EXPECT_LE(memory_stats(device).live_bytes, static_cast<std::int64_t>(bytes * 5 / 4));
  }
}

TEST(Storage, DevicesHavePoolsOfTheirOwn) {
  const Device one = unused_device();
  const Device other = unused_device();
  const auto block = Storage::allocate(64, one);
  EXPECT_EQ(block->device(), one);
  EXPECT_EQ(memory_stats(one).live_bytes, 64);
  EXPECT_EQ(memory_stats(other).live_bytes, 0);
}

TEST(Storage, BorrowedMemoryKeepsItsOwnerAndIsNotCounted) {
  const Device device = unused_device();
  auto owner = std::make_shared<std::vector<float>>(8);
  const std::weak_ptr<std::vector<float>> watch = owner;
  auto storage = Storage::borrow(owner->data(), 32, device, owner);
  EXPECT_EQ(storage->data(), reinterpret_cast<std::byte*>(owner->data()));
  owner.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(memory_stats(device).allocations, 0);
  storage.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(Storage, AnImpossibleSizeIsRefused) {
  EXPECT_EQ(message_of<OutOfMemory>([] { Storage::allocate(std::size_t{1} << 60, {}); }),
            "memory: cannot allocate 1152921504606846976 bytes");
}

// So much room, of which no block may have more than `most`.
class SmallSource final : public MemorySource {
 public:
  std::byte* take(std::size_t size) override {
    if (size > most) throw OutOfMemory("memory: more than there can be");
    if (size > room) return nullptr;
    room -= size;
    return static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
  }
  void give(std::byte* block, std::size_t size) override {
    room += size;
    std::free(block);
  }

  std::size_t room = 1 << 20, most = 1 << 22;
};

TEST(MemoryPool, WhatItCouldNotGiveIsNotCounted) {
  SmallSource source;
  MemoryPool pool(source);
  std::byte* block = pool.take(1024);
  EXPECT_THROW(pool.take(2 << 20), OutOfMemory);
  const MemoryStats stats = pool.stats();
  EXPECT_EQ(stats.allocations, 1);
  EXPECT_EQ(stats.system_allocations, 1);
  EXPECT_EQ(stats.live_bytes, 1024);
  EXPECT_EQ(stats.peak_bytes, 1024);
  pool.give(block, 1024);
  pool.release();
  EXPECT_EQ(pool.stats().pooled_bytes, 0);
}

TEST(MemoryPool, ARequestThatCanNeverBeMetLeavesItsBlocksWaiting) {
  SmallSource source;
  MemoryPool pool(source);
  std::byte* block = pool.take(1 << 19);
  pool.give(block, 1 << 19);
  EXPECT_THROW(pool.take(1 << 23), OutOfMemory);
  EXPECT_EQ(pool.stats().pooled_bytes, 1 << 19);
  EXPECT_THROW(pool.take(1 << 21), OutOfMemory);  // there might have been room
  EXPECT_EQ(pool.stats().pooled_bytes, 0);
}

TEST(Storage, ANegativeDeviceIsRefused) {
  EXPECT_EQ(message_of([] { cpu(-1); }), "cpu: device index -1 is negative");
}

TEST(Storage, ThreadsShareAPool) {
  const Device device = unused_device();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (std::size_t i = 1; i < 500; ++i) {
          const auto block = Storage::allocate(i * 17, device);
          std::memset(block->data(), 1, block->bytes());
        }
      });
  }
  EXPECT_EQ(memory_stats(device).allocations, 4 * 499);
  EXPECT_EQ(memory_stats(device).live_bytes, 0);
}

}  // namespace
}  // namespace lockstep
