// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>

namespace lockstep::testing {

// Something that happens once, for the threads of a process and those it forks later.
class Event {
 public:
  Event() : number_(::eventfd(0, 0)) {
    if (number_ < 0) throw std::runtime_error("eventfd");
  }
  ~Event() { ::close(number_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void set() const {
    const std::uint64_t one = 1;
    if (::write(number_, &one, sizeof one) < 0) throw std::runtime_error("eventfd");
  }
  void await(std::chrono::milliseconds timeout = std::chrono::seconds(60)) const {
    pollfd waiting{number_, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(timeout.count())) != 1)
      throw std::runtime_error("what was waited for did not come");
  }

 private:
  int number_;
};

// Sets the event when its scope ends, by an error too.
class SetAtEnd {
 public:
  explicit SetAtEnd(const Event& event) : event_(event) {}
  ~SetAtEnd() { event_.set(); }
  SetAtEnd(const SetAtEnd&) = delete;
  SetAtEnd& operator=(const SetAtEnd&) = delete;

 private:
  const Event& event_;
};

}  // namespace lockstep::testing
