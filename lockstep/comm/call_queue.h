// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace lockstep::comm {

// One call at a time, in the order of coming: started ones run in a thread of the queue's own
// (which begins with the first), blocking ones in their caller's when nothing is before them.
class CallQueue {
 public:
  CallQueue() = default;
  // Runs what was started to its end.
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  std::shared_future<void> start(std::function<void()> call);
  void run(const std::function<void()>& call);

 private:
  void serve(const std::stop_token& stop);
  bool take(const std::stop_token& stop, std::packaged_task<void()>& call);
  void release();

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::packaged_task<void()>> started_;
  bool busy_ = false;
  std::thread::id owner_;  // who runs a call now
  std::jthread thread_;
};

}  // namespace lockstep::comm
