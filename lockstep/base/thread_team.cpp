// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/thread_team.h"

#include <pthread.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/float_mode.h"

namespace lockstep {
namespace {

// Tells the core that this is a waiting loop.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// Work is a round: its number grows, each thread runs once, the last to finish wakes the caller.
struct ThreadTeam::Impl {
  std::atomic<std::uint32_t> round = 0;
  std::atomic<std::uint32_t> running = 0;
  std::atomic<bool> stopping = false;
  const std::function<void(int)>* work = nullptr;
  std::uint64_t float_mode = 0;  // the caller's
  std::vector<std::exception_ptr> errors;
  std::vector<std::jthread> threads;

  int spins = 4000;

  ~Impl() {
    stopping = true;
    begin_round();
  }

  void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t is) const {
    for (int i = 0; i < spins; ++i) {
      if (value.load(std::memory_order_acquire) != is) return;
      relax();
    }
    value.wait(is, std::memory_order_acquire);
  }

  void call(int thread) {
    try {
      (*work)(thread);
    } catch (...) {
      errors[static_cast<std::size_t>(thread)] = std::current_exception();
    }
  }

  void serve(int thread) {
    for (std::uint32_t seen = 0;;) {
      wait_while(round, seen);
      ++seen;
      if (stopping) return;
      set_float_mode(float_mode);
      call(thread);
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) running.notify_one();
    }
  }

  void start(int thread, int size, const std::string& name) {
    try {
      threads.emplace_back([this, thread] { serve(thread); });
    } catch (const std::system_error& error) {
      throw IoError("threads: cannot start number {} of {}: {}", thread + 1, size,
                    std::strerror(error.code().value()));
    }
    const std::string label = name + "-" + std::to_string(thread);
    pthread_setname_np(threads.back().native_handle(), label.substr(0, 15).c_str());
  }

  void begin_round() {
    round.fetch_add(1, std::memory_order_acq_rel);
    round.notify_all();
  }

  void wait_for_others() {
    for (std::uint32_t left = running; left != 0; left = running) wait_while(running, left);
  }
};

ThreadTeam::ThreadTeam(int size, const std::string& name, Waiting waiting)
    : impl_(std::make_unique<Impl>()) {
  if (size < 1) throw InvalidArgument("threads: at least 1 is needed, got {}", size);
  if (waiting == Waiting::sleeps) impl_->spins = 0;
  impl_->errors.resize(static_cast<std::size_t>(size));
  impl_->threads.reserve(static_cast<std::size_t>(size) - 1);
  for (int t = 1; t < size; ++t) impl_->start(t, size, name);
}

ThreadTeam::~ThreadTeam() = default;

int ThreadTeam::size() const { return static_cast<int>(impl_->errors.size()); }

void ThreadTeam::run(const std::function<void(int)>& work) {
  for (std::exception_ptr& error : impl_->errors) error = nullptr;
  impl_->work = &work;
  impl_->float_mode = float_mode();
  impl_->running = static_cast<std::uint32_t>(impl_->threads.size());
  impl_->begin_round();
  impl_->call(0);
  impl_->wait_for_others();
  for (const std::exception_ptr& error : impl_->errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace lockstep
