// SPDX-License-Identifier: Apache-2.0
#include "tests/tensor/test_device.h"

#include <sys/mman.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/float_mode.h"

namespace lockstep::testing {
namespace {

constexpr std::size_t kRoom = std::size_t{1} << 34;  // reserved, not used

std::byte* reserve(int protection) {
  void* room = mmap(nullptr, kRoom, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  check(room != MAP_FAILED, "the test device finds no room for its addresses");
  return static_cast<std::byte*>(room);
}

}  // namespace

TestDevice::HiddenMemory::HiddenMemory()
    : shown_(reserve(PROT_NONE)), real_(reserve(PROT_READ | PROT_WRITE)) {}

TestDevice::HiddenMemory::~HiddenMemory() {
  munmap(shown_, kRoom);
  munmap(real_, kRoom);
}

std::byte* TestDevice::HiddenMemory::take(std::size_t size) {
  std::vector<std::byte*>& blocks = free_[size];
  if (!blocks.empty()) {
    std::byte* block = blocks.back();
    blocks.pop_back();
    return block;
  }
  if (kRoom - used_ < size) return nullptr;
  used_ += size;
  return shown_ + used_ - size;
}

void TestDevice::HiddenMemory::give(std::byte* block, std::size_t size) {
  free_[size].push_back(block);
}

class TestDevice::Queue {
 public:
  Queue(std::string name, MemoryMap map)
      : name_(std::move(name)), map_(map), thread_([this](std::stop_token stop) { run(stop); }) {}

  std::uint64_t add(Work work) {
    const std::lock_guard lock(mutex_);
    work_.push_back({std::move(work), float_mode()});
    return ++submitted_;
  }

  bool is_done(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    ask(number);
    return done_ >= number;
  }

  void wait(std::uint64_t number, std::chrono::milliseconds deadline) {
    std::unique_lock lock(mutex_);
    ask(number);
    if (!changed_.wait_for(lock, deadline, [&] { return closed_ || done_ >= number; }))
      throw IoError("{}: work {} of the queue is not done after {} ms", name_, number,
                    deadline.count());
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (done_ < number) throw IoError("{}: the device is gone", name_);
  }

  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return work_.size();
  }

  // What has not run never will.
  void close() {
    thread_.request_stop();
    thread_.join();
    const std::lock_guard lock(mutex_);
    closed_ = true;
    work_.clear();
    changed_.notify_all();
  }

 private:
  struct Item {
    Work work;
    std::uint64_t float_mode;  // the submitter's: kernels compute as they would in its thread
  };

  void ask(std::uint64_t number) {
    wanted_ = std::max(wanted_, number);
    changed_.notify_all();
  }

  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return done_ < wanted_; })) {
      const Item item = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      const std::exception_ptr error = run(item);
      lock.lock();
      if (!error_) error_ = error;
      ++done_;
      changed_.notify_all();
    }
  }

  std::exception_ptr run(const Item& item) const {
    set_float_mode(item.float_mode);
    try {
      item.work(map_);
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  const std::string name_;
  const MemoryMap map_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Item> work_;
  std::uint64_t submitted_ = 0, wanted_ = 0, done_ = 0;
  std::exception_ptr error_;  // of the first work that failed, until somebody hears of it
  bool closed_ = false;
  std::jthread thread_;
};

class TestDevice::EventState final : public Event::State {
 public:
  EventState(std::shared_ptr<Queue> queue, std::uint64_t number)
      : queue_(std::move(queue)), number_(number) {}
  bool is_done() override { return queue_->is_done(number_); }
  void wait(std::chrono::milliseconds deadline) override { queue_->wait(number_, deadline); }

 private:
  std::shared_ptr<Queue> queue_;
  std::uint64_t number_;
};

std::shared_ptr<TestDevice> TestDevice::make(const Options& options) {
  return std::shared_ptr<TestDevice>(new TestDevice(options));
}

TestDevice::TestDevice(const Options& options)
    : options_(options),
      queue_(std::make_shared<Queue>(device().str(), MemoryMap{hidden_.shift()})) {}

TestDevice::~TestDevice() { queue_->close(); }

std::size_t TestDevice::waiting() const { return queue_->waiting(); }

Event TestDevice::submit(Work work) {
  return Event(std::make_shared<EventState>(queue_, queue_->add(std::move(work))));
}

Event TestDevice::copy_in(std::span<const std::byte> host, std::byte* address,
                          std::shared_ptr<const void> owner) {
  return submit([host, address, owner = std::move(owner)](const MemoryMap& memory) {
    if (!host.empty()) std::memcpy(memory.at(address), host.data(), host.size());
  });
}

Event TestDevice::copy_out(std::byte* address, std::span<std::byte> host) {
  std::fill(host.begin(), host.end(), std::byte{0xff});
  return submit([host, address](const MemoryMap& memory) {
    if (!host.empty()) std::memcpy(host.data(), memory.at(address), host.size());
  });
}

Event TestDevice::copy(const Shape& shape, const StridedPointer& source,
                       const StridedPointer& target) {
  return submit([shape, source, target](const MemoryMap& memory) {
    copy_strided(shape, {memory.at(source.data), source.strides, source.dtype},
                 {memory.at(target.data), target.strides, target.dtype});
  });
}

}  // namespace lockstep::testing
