// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/transports/shm.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/hex.h"
#include "lockstep/base/hmac.h"
#include "lockstep/comm/detail/shm_transport.h"
#include "lockstep/comm/detail/subgroup.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kLongestCopy = 64 * 1024;  // copied before the peer is told

bool is_needed(const Transfer& one) { return !one.later && one.done < one.bytes.size(); }

}  // namespace

namespace detail {

ShmTransport::ShmTransport(const ShmOptions& options)
    : options_(options),
      segment_(options),
      waiter_(segment_, options),
      memory_(options.rank, options.size) {
  options_.check = {};
}

ShmTransport::~ShmTransport() {
  segment_.rank(options_.rank).closed = 1;
  for (int peer = 0; peer < options_.size; ++peer) waiter_.wake(peer);
}

void ShmTransport::exchange(std::span<Transfer> transfers, Deadline deadline,
                            std::string_view operation) {
  waiter_.check_failure(operation);
  while (true) {
    const bool moved = move_open(transfers);
    if (std::none_of(transfers.begin(), transfers.end(), is_needed)) return;
    if (!moved) waiter_.wait([this] { return blocker(); }, deadline, operation);
  }
}

bool ShmTransport::tree_reduce(const TreeCall& call, Deadline deadline,
                               std::string_view operation) {
  waiter_.check_failure(operation);
  if (options_.meter && size() > 1) options_.meter->add_sent(call.result.size());
  shm_tree_reduce(call_of(deadline, operation), call, progress_);
  return true;
}

bool ShmTransport::barrier(Deadline deadline, std::string_view operation) {
  waiter_.check_failure(operation);
  shm_barrier(call_of(deadline, operation), progress_);
  return true;
}

std::span<std::byte> ShmTransport::allocate(std::size_t bytes, Deadline deadline) {
  return size() == 1 ? std::span<std::byte>() : share_memory(bytes, deadline);
}

ShmCall ShmTransport::call_of(Deadline deadline, std::string_view operation) {
  return {segment_, waiter_, memory_, options_.rank, options_.size, deadline, operation};
}

// Rank 0 makes a file; the others open it while it holds it open. One that cannot (too many files,
// a process that others may not look into) does without, and so does everybody.
std::span<std::byte> ShmTransport::share_memory(std::size_t bytes, Deadline deadline) {
  int number = -1;
  const std::span<std::byte> message = std::as_writable_bytes(std::span(&number, 1));
  std::vector<Transfer> transfers;
  if (rank() == 0) {
    number = memory_.make_file(bytes);
    for (int peer = 1; peer < size(); ++peer)
      transfers.push_back({Transfer::Kind::send, peer, message});
  } else {
    transfers.push_back({Transfer::Kind::receive, 0, message});
  }
  const ShmFile made(rank() == 0 ? number : -1);
  exchange(transfers, deadline, "allocate");
  if (number < 0) return {};
  const ShmFile opened(rank() == 0 ? -1 : ShmMemory::open_file(segment_.rank(0).pid, number));
  const auto own = memory_.map(rank() == 0 ? made.number : opened.number, bytes);
  if (have_all(!own.empty(), deadline)) return own;
  if (!own.empty()) memory_.unmap_last();
  return {};
}

// Rank 0 asks everybody and tells everybody.
bool ShmTransport::have_all(bool own, Deadline deadline) {
  std::vector<std::byte> answers(static_cast<std::size_t>(size()), std::byte{own});
  const auto pass = [&](Transfer::Kind first_does, Transfer::Kind others_do) {
    std::vector<Transfer> transfers;
    for (int peer = 1; peer < size() && rank() == 0; ++peer)
      transfers.push_back(
          {first_does, peer, std::span(answers).subspan(static_cast<std::size_t>(peer), 1)});
    if (rank() != 0) transfers.push_back({others_do, 0, std::span(answers).first(1)});
    exchange(transfers, deadline, "allocate");
  };
  pass(Transfer::Kind::receive, Transfer::Kind::send);
  const bool all = std::find(answers.begin(), answers.end(), std::byte{0}) == answers.end();
  std::fill(answers.begin(), answers.end(), std::byte{all});
  pass(Transfer::Kind::send, Transfer::Kind::receive);
  return answers[0] == std::byte{1};
}

void ShmTransport::abort(const std::string& reason) {
  waiter_.fail(ShmFailure::Kind::aborted, waiter_.name(rank()),
               fmt::format("aborted by rank {}: {}", waiter_.name(rank()), reason));
}

std::unique_ptr<Transport> ShmTransport::subgroup(const std::vector<int>& ranks,
                                                  Deadline deadline) {
  Bootstrap whole;
  whole.names = options_.names;
  whole.meter = options_.meter;
  return connect_shm_group(
      subgroup_bootstrap(*this, whole, ranks, deadline, [this] { waiter_.check_group("split"); }));
}

bool ShmTransport::move_on(std::span<Transfer> transfers, std::string_view operation) {
  waiter_.check_failure(operation);
  const bool moved = move_open(transfers);
  find_open(transfers);
  return moved;
}

bool ShmTransport::park() {
  if (open_.empty()) return true;
  waiter_.park(open_.front()->peer);
  return blocker() >= 0;
}

bool ShmTransport::move_open(std::span<Transfer> transfers) {
  find_open(transfers);
  bool moved = false;
  for (Transfer* transfer : open_) moved = move(*transfer) || moved;
  return moved;
}

// A stream carries one transfer at a time: the first that is not done.
void ShmTransport::find_open(std::span<Transfer> transfers) {
  open_.clear();
  for (Transfer& transfer : transfers) {
    if (transfer.done == transfer.bytes.size()) continue;
    const auto same = [&](const Transfer* other) {
      return other->kind == transfer.kind && other->peer == transfer.peer;
    };
    if (std::none_of(open_.begin(), open_.end(), same)) open_.push_back(&transfer);
  }
}

// How many bytes could move now.
std::size_t ShmTransport::room(const Transfer& transfer) const {
  if (transfer.kind == Transfer::Kind::send) {
    const ShmStream& stream = segment_.stream(rank(), transfer.peer);
    return segment_.stream_size() - (stream.written.load(std::memory_order_relaxed) - stream.read);
  }
  const ShmStream& stream = segment_.stream(transfer.peer, rank());
  return stream.written - stream.read.load(std::memory_order_relaxed);
}

int ShmTransport::blocker() const {
  for (const Transfer* transfer : open_)
    if (room(*transfer) > 0) return -1;
  return open_.front()->peer;
}

bool ShmTransport::move(Transfer& transfer) {
  const std::size_t count =
      std::min({room(transfer), transfer.bytes.size() - transfer.done, kLongestCopy});
  if (count == 0) return false;
  std::byte* bytes = transfer.bytes.data() + transfer.done;
  if (transfer.kind == Transfer::Kind::send)
    send(transfer.peer, bytes, count);
  else
    read(transfer.peer, bytes, count);
  transfer.done += count;
  return true;
}

void ShmTransport::send(int peer, const std::byte* from, std::size_t count) {
  if (options_.meter) options_.meter->add_sent(count);
  write(peer, from, count);
}

void ShmTransport::write(int peer, const std::byte* from, std::size_t count) {
  ShmStream& stream = segment_.stream(rank(), peer);
  const std::uint64_t at = stream.written.load(std::memory_order_relaxed);
  std::byte* ring = segment_.stream_bytes(rank(), peer);
  const std::size_t offset = at % segment_.stream_size();
  const std::size_t first = std::min(count, segment_.stream_size() - offset);
  std::memcpy(ring + offset, from, first);
  std::memcpy(ring, from + first, count - first);
  waiter_.publish_to(peer, stream.written, at + count);
}

void ShmTransport::read(int peer, std::byte* to, std::size_t count) {
  ShmStream& stream = segment_.stream(peer, rank());
  const std::uint64_t at = stream.read.load(std::memory_order_relaxed);
  const std::byte* ring = segment_.stream_bytes(peer, rank());
  const std::size_t offset = at % segment_.stream_size();
  const std::size_t first = std::min(count, segment_.stream_size() - offset);
  std::memcpy(to, ring + offset, first);
  std::memcpy(to + first, ring, count - first);
  waiter_.publish_to(peer, stream.read, at + count);
}

}  // namespace detail

std::string random_shm_name() { return to_hex(random_bytes(12)); }

std::unique_ptr<Transport> connect_shm(const ShmOptions& options) {
  return std::make_unique<detail::ShmTransport>(options);
}

std::unique_ptr<Transport> connect_shm_group(const Bootstrap& bootstrap) {
  ShmOptions options;
  options.group = bootstrap.all_gather(random_shm_name())[0];
  options.rank = bootstrap.rank;
  options.size = bootstrap.size();
  options.host = bootstrap.hosts[0];
  options.timeout = bootstrap.timeout;
  options.names = bootstrap.names;
  options.check = bootstrap.check;
  options.meter = bootstrap.meter;
  return connect_shm(options);
}

}  // namespace lockstep::comm
