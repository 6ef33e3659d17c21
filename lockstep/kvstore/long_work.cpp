// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/long_work.h"

#include <fmt/core.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <exception>
#include <mutex>
#include <thread>

#include "lockstep/comm/errors.h"

namespace lockstep::kvstore {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr char kBusy = 'b', kDone = 'd', kFailed = 'f';
// Between two signs of life, at most: those who are done wait for it by the group's own deadline.
constexpr milliseconds kEvery(250);

// How long a thread has used no processor time. One that waits for a child or a lock looks for it
// again and again, which counts as work; one that a file keeps waiting does nothing at all.
class Standstill {
 public:
  explicit Standstill(pthread_t thread) { known_ = pthread_getcpuclockid(thread, &clock_) == 0; }

  milliseconds look() {
    timespec now{};
    const bool is_read = known_ && clock_gettime(clock_, &now) == 0;
    if (!is_read || now.tv_sec != last_.tv_sec || now.tv_nsec != last_.tv_nsec)
      since_ = Clock::now();
    last_ = now;
    return std::chrono::duration_cast<milliseconds>(Clock::now() - since_);
  }

 private:
  clockid_t clock_{};
  bool known_;
  timespec last_{};
  Clock::time_point since_ = Clock::now();
};

// What this worker says in each round, and what it hears.
class Rounds {
 public:
  Rounds(Group& group, milliseconds patience, const std::string& what)
      : group_(group),
        patience_(patience),
        every_(std::clamp(patience / 4, milliseconds(20), kEvery)),
        what_(what),
        standstill_(pthread_self()) {}

  void end(char state, std::string text) {
    const std::lock_guard lock(mutex_);
    state_ = state;
    text_ = std::move(text);
    changed_.notify_all();
  }

  void run() {
    try {
      while (!is_over(share(next_words()))) continue;
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // Whoever is done says so at once.
  std::string next_words() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, every_, [this] { return state_ != kBusy; });
    if (state_ != kBusy) return state_ + text_;
    return kBusy + std::to_string(standstill_.look().count());
  }

  // Who is missed is missed in the work, and not in some all_gather.
  std::vector<std::string> share(const std::string& words) {
    const auto named = [this](const comm::CommError& error) { return what_ + ": " + error.what(); };
    try {
      return group_.share(words);
    } catch (const comm::Timeout& error) {
      throw comm::Timeout(named(error), error.rank(), error.host(), what_);
    } catch (const comm::PeerLost& error) {
      throw comm::PeerLost(named(error), error.rank(), error.host(), what_);
    }
  }

  bool is_over(const std::vector<std::string>& all) {
    for (std::size_t rank = 0; rank < all.size(); ++rank) check(static_cast<int>(rank), all[rank]);
    return std::all_of(all.begin(), all.end(), [](auto& one) { return one[0] == kDone; });
  }

  void check(int rank, const std::string& words) const {
    if (words[0] == kFailed && rank != group_.rank())
      throw comm::Aborted(fmt::format("{}: worker {} gave up: {}", what_, rank, words.substr(1)),
                          rank, "", what_);
    if (words[0] == kFailed) throw comm::Aborted("", rank, "", what_);  // it has its own error
    if (words[0] == kBusy && milliseconds(std::stoll(words.substr(1))) > patience_)
      throw comm::Timeout(
          fmt::format("{}: worker {} has used no processor time for {:.1f} s: it waits for a file "
                      "or a device that does not answer, or its host is crowded",
                      what_, rank, std::chrono::duration<double>(patience_).count()),
          rank, "", what_);
  }

  Group& group_;
  milliseconds patience_, every_;
  const std::string& what_;
  Standstill standstill_;
  std::mutex mutex_;
  std::condition_variable changed_;
  char state_ = kBusy;
  std::string text_;
  std::exception_ptr error_;
};

}  // namespace

void work_together(Group& group, milliseconds patience, const std::string& what,
                   const std::function<void()>& work) {
  if (group.workers() == 1) return work();
  Rounds rounds(group, patience, what);
  std::exception_ptr own;
  {
    const std::jthread teller([&] { rounds.run(); });
    try {
      work();
      rounds.end(kDone, {});
    } catch (const std::exception& error) {
      own = std::current_exception();
      rounds.end(kFailed, error.what());
    }
  }
  if (own) std::rethrow_exception(own);
  rounds.rethrow();
}

}  // namespace lockstep::kvstore
