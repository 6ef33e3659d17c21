// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/shm_waiter.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lockstep::comm {
namespace {

constexpr auto kNap = std::chrono::milliseconds(20);
constexpr auto kStay = std::chrono::milliseconds(5);  // between two moves to another core
constexpr std::uint32_t kAwake = 0, kAsleep = 1, kElsewhere = 2;
constexpr auto kSample = std::chrono::milliseconds(150);

// The kernel's own atomic word is the futex's.
std::uint32_t* word_of(std::atomic<std::uint32_t>& value) {
  static_assert(sizeof(value) == sizeof(std::uint32_t));
  return reinterpret_cast<std::uint32_t*>(&value);
}

}  // namespace

ShmWaiter::ShmWaiter(const ShmSegment& segment, const ShmOptions& options)
    : segment_(segment),
      rank_(options.rank),
      size_(options.size),
      host_(options.host),
      names_(options.names),
      on_wait_(options.on_wait),
      wake_elsewhere_(options.wake),
      meter_(options.meter),
      // With more ranks than cores, whoever spins keeps another rank from running.
      spins_(segment.is_crowded() ? 200 : 2000),
      yields_(segment.is_crowded() ? 8 : 1) {
  for (int rank = 0; rank < size_; ++rank)
    processes_.push_back(rank == rank_ ? -1
                                       : static_cast<int>(syscall(
                                             SYS_pidfd_open, segment.rank(rank).pid.load(), 0)));
}

ShmWaiter::~ShmWaiter() {
  for (const int process : processes_)
    if (process >= 0) close(process);
}

void ShmWaiter::wake(int rank) const {
  ShmRank& sleeper = segment_.rank(rank);
  ++sleeper.wakeups;
  syscall(SYS_futex, word_of(sleeper.wakeups), FUTEX_WAKE, 1, nullptr, nullptr, 0);
  std::uint32_t elsewhere = kElsewhere;  // the first to wake it does it there too
  if (wake_elsewhere_ && rank != rank_ &&
      sleeper.sleeping.compare_exchange_strong(elsewhere, kAsleep))
    wake_elsewhere_(rank);
}

void ShmWaiter::park(int peer) {
  ShmRank& own = segment_.rank(rank_);
  own.waiting_on = peer;
  own.sleeping = kElsewhere;
}

void ShmWaiter::unpark() {
  ShmRank& own = segment_.rank(rank_);
  own.sleeping = kAwake;
  own.waiting_on = -1;
}

int ShmWaiter::name(int rank) const {
  return names_.empty() ? rank : names_[static_cast<std::size_t>(rank)];
}

bool ShmWaiter::shares_core(int peer) const {
  const int core = segment_.rank(peer).core.load(std::memory_order_relaxed);
  return core >= 0 && core == sched_getcpu();
}

// Written only when it changes, so that the line stays in everybody's cache.
void ShmWaiter::show_core() const {
  std::atomic<std::int32_t>& shown = segment_.rank(rank_).core;
  const int core = sched_getcpu();
  if (shown.load(std::memory_order_relaxed) != core) shown.store(core, std::memory_order_relaxed);
}

// Whether as many ranks as a core should have are on this one already, and come before this rank.
bool ShmWaiter::is_too_many(int core) const {
  const int cores = segment_.header().cores;
  int before = 0;
  for (int rank = 0; rank < rank_; ++rank) before += segment_.rank(rank).core == core ? 1 : 0;
  return before >= (size_ + cores - 1) / cores;
}

// Processes that wake each other are put on one core by the scheduler, and stay there while another
// one has nothing to do. Who is too many leaves it; where it goes, and when it comes back, is the
// scheduler's to say.
void ShmWaiter::leave_crowded_core() {
  const int core = sched_getcpu();
  if (core < 0 || !is_too_many(core) || Clock::now() - moved_ < kStay) return;
  moved_ = Clock::now();
  cpu_set_t all, others;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  others = all;
  CPU_CLR(static_cast<std::size_t>(core), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  sched_setaffinity(0, sizeof all, &all);
  show_core();
}

void ShmWaiter::publish(std::atomic<std::uint64_t>& counter, std::uint64_t value) {
  show_core();
  counter.store(value);
  for (int rank = 0; rank < size_; ++rank)
    if (segment_.rank(rank).sleeping.load() != 0 && rank != rank_) wake(rank);
}

void ShmWaiter::publish_to(int peer, std::atomic<std::uint64_t>& counter, std::uint64_t value) {
  show_core();
  counter.store(value);
  if (segment_.rank(peer).sleeping.load() != 0) wake(peer);
}

// The number of wakeups is read before the condition is: what is published in between changes it,
// and the sleep ends at once.
void ShmWaiter::wait_long(const std::function<int()>& blocker, Deadline deadline,
                          std::string_view operation) {
  Meter::Wait wait(meter_.get(), operation);
  leave_crowded_core();
  for (int i = 0; i < yields_; ++i) {
    sched_yield();
    if (blocker() < 0) return;
  }
  ShmRank& own = segment_.rank(rank_);
  before_ = recent_ = {};
  sample_heartbeats();
  while (true) {
    own.sleeping = kAsleep;
    const std::uint32_t wakeups = own.wakeups;
    const int peer = blocker();
    own.waiting_on = peer;
    if (peer < 0) break;
    wait.set_rank(name(peer));
    check_failure(operation);
    // A larger group knows who lives, and why somebody left.
    if (on_wait_)
      on_wait_(peer, deadline, operation);
    else
      check_lives(peer, blocker);
    if (Clock::now() >= deadline) fail_late(peer);
    check_failure(operation);
    sleep(wakeups, deadline);
    ++own.heartbeat;
    sample_heartbeats();
  }
  own.sleeping = kAwake;
}

void ShmWaiter::sleep(std::uint32_t wakeups, Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::nanoseconds>(deadline - Clock::now());
  const auto nap = std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds(1), kNap);
  const timespec time{0, static_cast<long>(nap.count())};
  syscall(SYS_futex, word_of(segment_.rank(rank_).wakeups), FUTEX_WAIT, wakeups, &time, nullptr, 0);
}

// A rank that died takes the group with it, even when it is another one that this rank waits for. A
// rank that left in good order is missed only by those who wait for it.
void ShmWaiter::check_lives(int blocker, const std::function<int()>& still) const {
  const bool left = segment_.rank(blocker).closed != 0;
  if (left && still() == blocker)
    fail(ShmFailure::Kind::lost, name(blocker),
         fmt::format("rank {} on {} has left the group", name(blocker), host_));
  for (int rank = 0; rank < size_; ++rank)
    if (has_died(rank) && still() >= 0)
      fail(ShmFailure::Kind::lost, name(rank),
           fmt::format("rank {} on {} is gone", name(rank), host_));
}

void ShmWaiter::check_group(std::string_view operation) const {
  for (int rank = 0; rank < size_; ++rank)
    if (has_died(rank))
      fail(ShmFailure::Kind::lost, name(rank),
           fmt::format("rank {} on {} is gone", name(rank), host_));
  check_failure(operation);
}

bool ShmWaiter::has_died(int rank) const {
  const ShmRank& peer = segment_.rank(rank);
  if (rank == rank_ || peer.closed != 0) return false;
  const int process = processes_[static_cast<std::size_t>(rank)];
  if (process < 0) return kill(peer.pid, 0) != 0 && errno == ESRCH;
  pollfd ended{process, POLLIN, 0};
  return poll(&ended, 1, 0) == 1 && peer.closed == 0;
}

// Whoever waits for somebody else is not to blame, so follow who waits for whom to one who does
// not. Where that leads round in a circle, each does its part of another call.
void ShmWaiter::fail_late(int blocker) const {
  std::vector<bool> met(static_cast<std::size_t>(size_));
  std::string circle = fmt::format("rank {} for rank {}", name(rank_), name(blocker));
  met[static_cast<std::size_t>(rank_)] = true;
  while (!met[static_cast<std::size_t>(blocker)] && is_waiting(blocker)) {
    const int next = segment_.rank(blocker).waiting_on;
    if (next < 0) break;
    circle += fmt::format(", rank {} for rank {}", name(blocker), name(next));
    met[static_cast<std::size_t>(blocker)] = true;
    blocker = next;
  }
  if (met[static_cast<std::size_t>(blocker)])
    fail(ShmFailure::Kind::timeout, -1,
         "the ranks wait for each other, their calls do not match: " + circle);
  fail(ShmFailure::Kind::timeout, name(blocker),
       fmt::format("rank {} on {} has not done its part in time", name(blocker), host_));
}

// A stopped process may have been stopped while it waited, but then its heartbeat stands still.
bool ShmWaiter::is_waiting(int rank) const {
  const ShmRank& peer = segment_.rank(rank);
  if (peer.waiting_on < 0) return false;
  if (before_.heartbeats.empty()) return true;
  return peer.heartbeat != before_.heartbeats[static_cast<std::size_t>(rank)];
}

void ShmWaiter::sample_heartbeats() {
  const auto now = Clock::now();
  if (!recent_.heartbeats.empty() && now - recent_.time < kSample) return;
  before_ = std::move(recent_);
  recent_ = {now, {}};
  for (int rank = 0; rank < size_; ++rank)
    recent_.heartbeats.push_back(segment_.rank(rank).heartbeat);
}

void ShmWaiter::check_failure(std::string_view operation) const {
  const ShmFailure& failure = segment_.header().failure;
  if (failure.state.load() != 2) return;
  const std::string what = fmt::format("{}: {}", operation, failure.text);
  const std::string name(operation);
  switch (failure.kind) {
    case ShmFailure::Kind::lost: throw PeerLost(what, failure.rank, host_, name);
    case ShmFailure::Kind::timeout: throw Timeout(what, failure.rank, host_, name);
    case ShmFailure::Kind::aborted: throw Aborted(what, failure.rank, host_, name);
  }
}

void ShmWaiter::fail(ShmFailure::Kind kind, int rank, const std::string& text) const {
  ShmFailure& failure = segment_.header().failure;
  std::uint32_t none = 0;
  if (!failure.state.compare_exchange_strong(none, 1)) return;
  failure.kind = kind;
  failure.rank = rank;
  const std::size_t length = std::min(text.size(), sizeof failure.text - 1);
  std::memcpy(failure.text, text.data(), length);
  failure.text[length] = 0;
  failure.state = 2;
  for (int peer = 0; peer < size_; ++peer) wake(peer);
}

}  // namespace lockstep::comm
