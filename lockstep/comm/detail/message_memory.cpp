// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/message_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::comm::detail {
namespace {

constexpr std::size_t kHead = sizeof(MemoryHead);
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kGrowth = 1 << 20;
constexpr int kNoResizing = F_SEAL_SHRINK | F_SEAL_GROW;

std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

std::shared_ptr<const PeerMemory> PeerMemory::map(int file, std::size_t most) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) return nullptr;
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (facts.st_size < 0 || size < kHead || size - kHead > rounded(most, kAlignment)) return nullptr;
  const int seals = ::fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & kNoResizing) != kNoResizing) return nullptr;
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return nullptr;
  return std::shared_ptr<const PeerMemory>(
      new PeerMemory(static_cast<const std::byte*>(memory), size));
}

PeerMemory::~PeerMemory() { ::munmap(const_cast<std::byte*>(base_), size_); }

std::span<const std::byte> PeerMemory::at(const LentPlace& place, std::uint64_t bytes) const {
  const std::size_t room = size();
  if (place.block >= kMostLent || place.offset > room || bytes > room - place.offset)
    throw Corrupt("a message's part lies outside of the memory that its sender shows");
  return {base_ + kHead + place.offset, bytes};
}

std::size_t PeerMemory::size() const { return size_ - kHead; }

std::shared_ptr<MessageMemory> MessageMemory::make(std::size_t bytes) {
  const std::size_t size = kHead + rounded(bytes, kAlignment);
  Socket file(::memfd_create("lockstep", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.fd(), static_cast<off_t>(size)) != 0) return nullptr;
  // Now, and not as a SIGBUS later, is the time to find out that there is not enough.
  if (::fallocate(file.fd(), 0, 0, kHead) != 0) return nullptr;
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  if (memory == MAP_FAILED) return nullptr;
  auto made = std::shared_ptr<MessageMemory>(
      new MessageMemory(std::move(file), static_cast<std::byte*>(memory), size));
  const int seals = kNoResizing | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  return ::fcntl(made->file(), F_ADD_SEALS, seals) == 0 ? made : nullptr;
}

MessageMemory::MessageMemory(Socket file, std::byte* base, std::size_t size)
    : file_(std::move(file)), base_(base), size_(size), process_(::getpid()), lent_(kMostLent) {
  for (std::uint32_t number = kMostLent; number > 0; --number) unused_.push_back(number - 1);
}

MessageMemory::~MessageMemory() { ::munmap(base_, size_); }

std::optional<MessageBuffer> MessageMemory::allocate(std::size_t bytes) {
  if (bytes > size_ - kHead) return std::nullopt;
  const std::size_t whole = rounded(std::max<std::size_t>(bytes, 1), kAlignment);
  const std::lock_guard lock(mutex_);
  reclaim();
  const std::optional<std::size_t> offset = find_gap(whole);
  if (!offset || unused_.empty() || !grow(*offset + whole)) return std::nullopt;
  blocks_[*offset] = {whole, unused_.back()};
  unused_.pop_back();
  std::byte* begin = base_ + kHead + *offset;
  Payload::Owner owner(
      begin, [memory = shared_from_this(), at = *offset](const void*) { memory->let_go(at); });
  return MessageBuffer{{begin, bytes}, std::move(owner)};
}

void MessageMemory::let_go(std::size_t offset) {
  const std::lock_guard lock(mutex_);
  blocks_.at(offset).is_held = false;
}

// The blocks that nobody has any more, neither here nor there.
void MessageMemory::reclaim() {
  std::erase_if(blocks_, [this](const auto& one) {
    const Block& block = one.second;
    const bool is_free = !block.is_held && (lent_[block.number] == 0 ||
                                            reader_->head().given_back[block.number].load(
                                                std::memory_order_acquire) == lent_[block.number]);
    if (is_free) unused_.push_back(block.number);
    return is_free;
  });
}

// The first one: what was used before is in the caches, and no new memory is taken.
std::optional<std::size_t> MessageMemory::find_gap(std::size_t bytes) const {
  std::size_t begin = 0;
  for (const auto& [offset, block] : blocks_) {
    if (offset - begin >= bytes) return begin;
    begin = offset + block.bytes;
  }
  if (size_ - kHead - begin >= bytes) return begin;
  return std::nullopt;
}

bool MessageMemory::grow(std::size_t end) {
  if (end <= grown_) return true;
  const std::size_t until = std::min(rounded(end, kGrowth), size_ - kHead);
  const std::size_t from = kHead + grown_, more = until - grown_;
  if (::fallocate(file(), 0, static_cast<off_t>(from), static_cast<off_t>(more)) != 0) return false;
#ifdef MADV_POPULATE_WRITE
  ::madvise(base_ + from, more, MADV_POPULATE_WRITE);  // faster at once than page by page
#endif
  grown_ = until;
  return true;
}

MessageMemory::Blocks::const_iterator MessageMemory::find(std::span<const std::byte> bytes) const {
  const std::byte* first = base_ + kHead;
  if (bytes.data() < first) return blocks_.end();
  const auto offset = static_cast<std::size_t>(bytes.data() - first);
  auto block = blocks_.upper_bound(offset);
  if (block == blocks_.begin()) return blocks_.end();
  --block;
  const std::size_t end = block->first + block->second.bytes;
  return offset < end && bytes.size() <= end - offset ? block : blocks_.end();
}

bool MessageMemory::contains(std::span<const std::byte> bytes) const {
  if (bytes.data() < base_ || bytes.data() >= base_ + size_) return false;
  const std::lock_guard lock(mutex_);
  return find(bytes) != blocks_.end();
}

LentPlace MessageMemory::lend(std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const auto block = find(bytes);
  check(block != blocks_.end(), "a part is in no block of the memory that is shown");
  ++lent_[block->second.number];
  return {block->second.number, static_cast<std::uint64_t>(bytes.data() - base_) - kHead};
}

void MessageMemory::give_back(std::uint32_t block, std::uint64_t times) {
  if (::getpid() != process_) return;  // a fork's copy of what it belongs to
  // What was read there has been read before the other process sees this.
  head().given_back[block].fetch_add(times, std::memory_order_release);
}

MessageBuffer allocate_in(MessageMemory* memory, std::size_t bytes) {
  if (memory != nullptr)
    if (auto buffer = memory->allocate(bytes)) return *buffer;
  return allocate_buffer(bytes);
}

namespace {

bool is_to_be_copied(const Payload& payload, std::size_t part, const MessageMemory& memory) {
  const auto segments = payload.segments(part);
  if (payload.size(part) < kShareFrom) return false;
  return segments.size() > 1 || !memory.contains(segments[0].bytes);
}

}  // namespace

Payload share(Payload payload, MessageMemory* memory) {
  if (memory == nullptr) return payload;
  Payload shared;
  for (std::size_t part = 0; part < payload.parts(); ++part) {
    std::optional<MessageBuffer> buffer;
    if (is_to_be_copied(payload, part, *memory)) buffer = memory->allocate(payload.size(part));
    if (buffer) {
      payload.copy_to(part, buffer->bytes);
      shared.add(*buffer);
      continue;
    }
    bool begins = true;
    for (const Payload::Segment& segment : payload.segments(part))
      shared.append(segment, std::exchange(begins, false));
  }
  return shared;
}

}  // namespace lockstep::comm::detail
