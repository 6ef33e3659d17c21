// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "lockstep/comm/transports/shm.h"

namespace lockstep::comm {

// What lies in the shared memory of a group. All counters only grow.
inline constexpr std::size_t kCacheLine = 128;  // two lines: processors fetch them in pairs
inline constexpr std::size_t kStages = 4;
inline constexpr std::size_t kStageBytes = 512 * 1024;

// The first failure of the group: what every rank reports from then on.
struct ShmFailure {
  enum class Kind : std::uint32_t { lost, timeout, aborted };
  std::atomic<std::uint32_t> state;  // 0: none, 1: being written, 2: readable
  Kind kind;
  std::int32_t rank;  // to blame
  char text[512];
};

struct ShmHeader {
  std::atomic<std::uint64_t> ready;  // kShmMagic when rank 0 has laid it out
  std::uint64_t bytes;
  std::int32_t size;
  std::int32_t cores;  // that the ranks may use
  alignas(kCacheLine) ShmFailure failure;
};

// What a rank does in a call, to be compared with what the others do.
struct ShmSignature {
  std::uint64_t bytes;  // of the result; 0: a barrier
  std::uint64_t plan;   // a hash of shards, ranges, element and reduction
  bool operator==(const ShmSignature&) const = default;
};
inline constexpr std::size_t kSignatures =
    3;  // a rank is at most two calls ahead of what is compared

struct ShmRank {
  std::atomic<std::int32_t> pid;      // 0 before it has come
  std::atomic<std::uint32_t> closed;  // it left in good order
  // Going to sleep is rare; who publishes looks at `sleeping`, and wakes it when that is set.
  alignas(kCacheLine) std::atomic<std::uint32_t> sleeping;
  std::atomic<std::uint32_t> wakeups;    // the futex it sleeps on
  std::atomic<std::uint32_t> heartbeat;  // grows now and then while it waits
  std::atomic<std::int32_t> waiting_on;  // a rank, or -1
  // Where it ran when it last published something, or -1.
  alignas(kCacheLine) std::atomic<std::int32_t> core;
  // Reductions: the last chunk that it has staged, has reduced its slice of, has done with.
  // The signatures of the calls that began with a chunk are in the line that is looked at anyway.
  alignas(kCacheLine) std::atomic<std::uint64_t> staged;
  ShmSignature signatures[kSignatures];
  alignas(kCacheLine) std::atomic<std::uint64_t> reduced;
  alignas(kCacheLine) std::atomic<std::uint64_t> finished;
  // What it brings to this call and brought to the one before.
  struct Share {
    ShardRange range;
    std::uint64_t node, result;  // their places in the group's memory (ShmMemory), or 0
  };
  alignas(kCacheLine) Share shares[2];
};

// Bytes from one rank to another: a ring with one writer and one reader.
struct ShmStream {
  alignas(kCacheLine) std::atomic<std::uint64_t> written;
  alignas(kCacheLine) std::atomic<std::uint64_t> read;
};

// The mapping of one rank. Unmaps itself. Its file has no name, so that nothing can stay behind.
class ShmSegment {
 public:
  // Creates it (rank 0) or waits for it (the others), and returns when all ranks have mapped it.
  explicit ShmSegment(const ShmOptions& options);
  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  ShmHeader& header() const { return *reinterpret_cast<ShmHeader*>(base_); }
  // There are more ranks than cores.
  bool is_crowded() const { return size_ > header().cores; }
  ShmRank& rank(int rank) const;
  ShmStream& stream(int from, int to) const;
  std::byte* stream_bytes(int from, int to) const;
  std::size_t stream_size() const { return stream_size_; }
  // Where a rank stages a chunk.
  std::byte* stage(int rank, std::uint64_t chunk) const;

 private:
  explicit ShmSegment(int size);  // its places; maps nothing
  void create(const ShmOptions& options, Deadline deadline);
  void join(const ShmOptions& options, Deadline deadline);
  int make_file() const;
  void write_header();
  void check_header(const ShmOptions& options) const;
  int first_missing() const;
  void map(int file);

  int size_;
  std::size_t stream_size_ = 0;
  std::size_t ranks_at_ = 0, streams_at_ = 0, stages_at_ = 0, bytes_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace lockstep::comm
