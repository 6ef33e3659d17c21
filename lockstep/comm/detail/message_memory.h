// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/comm/messages/payload.h"
#include "lockstep/comm/socket.h"

namespace lockstep::comm::detail {

// Two processes of a host that exchange messages have a memory each, which it alone writes and the
// other reads: long parts of what it sends, and how much of what the other lent it has given back.
// Numbers that say where something lies come with a message, are checked once and never read from
// a memory that another process can change.

inline constexpr std::size_t kShareFrom = 16 << 10;  // bytes; shorter parts go with the message
inline constexpr std::uint32_t kMostLent = 4096;     // blocks at a time
// Bytes in a frame, and on the way: what is urgent passes what comes after.
inline constexpr std::size_t kLentAtOnce = 4 << 20, kMostUntaken = 16 << 20;

// Where lent bytes lie.
struct LentPlace {
  std::uint32_t block = 0;
  std::uint64_t offset = 0;
};

// What stands before the blocks. All counts only grow.
struct MemoryHead {
  std::atomic<std::uint64_t> given_back[kMostLent];  // so often, by the other process's blocks
  // Lent bytes of which the other process has heard, given back or not.
  alignas(64) std::atomic<std::uint64_t> taken;
  alignas(64) std::atomic<bool> waits;  // until more is taken, and wants to be told
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// What the other process shows to this one.
class PeerMemory {
 public:
  // Null where it cannot be mapped, is larger than `most` bytes, or could be cut off while it is
  // read. The file may be closed then.
  static std::shared_ptr<const PeerMemory> map(int file, std::size_t most);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Throws Corrupt for a place that is not in this memory.
  std::span<const std::byte> at(const LentPlace& place, std::uint64_t bytes) const;
  std::size_t size() const;
  const MemoryHead& head() const { return *reinterpret_cast<const MemoryHead*>(base_); }

 private:
  PeerMemory(const std::byte* base, std::size_t size) : base_(base), size_(size) {}
  const std::byte* base_;
  std::size_t size_;
};

// What this process shows to the other one. Nobody else can write it, and it has no name: nothing
// of it can stay behind. From any thread.
class MessageMemory : public std::enable_shared_from_this<MessageMemory> {
 public:
  // Room for so many bytes, of which none is taken before it is used. Null where there is none.
  static std::shared_ptr<MessageMemory> make(std::size_t bytes);
  ~MessageMemory();
  MessageMemory(const MessageMemory&) = delete;
  MessageMemory& operator=(const MessageMemory&) = delete;

  int file() const { return file_.fd(); }
  // Who says what has been given back. First.
  void set_reader(std::shared_ptr<const PeerMemory> reader) { reader_ = std::move(reader); }

  // Nothing where there is no room now: others hold it.
  std::optional<MessageBuffer> allocate(std::size_t bytes);
  // Whether the bytes lie in one block of it.
  bool contains(std::span<const std::byte> bytes) const;
  // What it contains, for the other process. The block stays until that has given it back.
  LentPlace lend(std::span<const std::byte> bytes);
  // A block of the other process that was lent so often.
  void give_back(std::uint32_t block, std::uint64_t times = 1);
  MemoryHead& head() const { return *reinterpret_cast<MemoryHead*>(base_); }

 private:
  struct Block {
    std::size_t bytes = 0;
    std::uint32_t number = 0;
    bool is_held = true;  // by an owner in this process
  };
  using Blocks = std::map<std::size_t, Block>;  // by offset
  MessageMemory(Socket file, std::byte* base, std::size_t size);
  void let_go(std::size_t offset);
  void reclaim();
  std::optional<std::size_t> find_gap(std::size_t bytes) const;
  bool grow(std::size_t end);
  Blocks::const_iterator find(std::span<const std::byte> bytes) const;

  Socket file_;
  std::byte* base_;
  std::size_t size_;
  int process_;
  std::shared_ptr<const PeerMemory> reader_;
  mutable std::mutex mutex_;
  Blocks blocks_;                      // guarded by the mutex, as all below
  std::vector<std::uint64_t> lent_;    // so often, by number
  std::vector<std::uint32_t> unused_;  // numbers
  std::size_t grown_ = 0;              // bytes that the system has given
};

// In the memory, or anywhere else where there is no room. `memory` may be null.
MessageBuffer allocate_in(MessageMemory* memory, std::size_t bytes);

// The payload with its long parts in the memory, as far as there is room. `memory` may be null.
Payload share(Payload payload, MessageMemory* memory);

}  // namespace lockstep::comm::detail
