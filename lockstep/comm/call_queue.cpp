// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/call_queue.h"

#include <pthread.h>

namespace lockstep::comm {

CallQueue::~CallQueue() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

std::shared_future<void> CallQueue::start(std::function<void()> call) {
  std::packaged_task<void()> task(std::move(call));
  std::shared_future<void> future = task.get_future().share();
  const std::lock_guard lock(mutex_);
  // First, since it may be that no thread can be made: then nothing was started.
  if (!thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
    pthread_setname_np(thread_.native_handle(), "comm");
  }
  started_.push_back(std::move(task));
  changed_.notify_all();
  return future;
}

void CallQueue::run(const std::function<void()>& call) {
  {
    std::unique_lock lock(mutex_);
    // A call that a started one makes is part of it.
    if (busy_ && owner_ == std::this_thread::get_id()) {
      lock.unlock();
      return call();
    }
    changed_.wait(lock, [this] { return !busy_ && started_.empty(); });
    busy_ = true;
    owner_ = std::this_thread::get_id();
  }
  try {
    call();
  } catch (...) {
    release();
    throw;
  }
  release();
}

void CallQueue::serve(const std::stop_token& stop) {
  std::packaged_task<void()> call;
  while (take(stop, call)) {
    call();
    release();
  }
}

// False when there is nothing more to do.
bool CallQueue::take(const std::stop_token& stop, std::packaged_task<void()>& call) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [this] { return !busy_ && !started_.empty(); });
  // Asked to stop while a blocking call runs: what was started comes after it.
  if (!started_.empty()) changed_.wait(lock, [this] { return !busy_; });
  if (started_.empty()) return false;
  call = std::move(started_.front());
  started_.pop_front();
  busy_ = true;
  owner_ = std::this_thread::get_id();
  return true;
}

void CallQueue::release() {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  owner_ = {};
  changed_.notify_all();
}

}  // namespace lockstep::comm
