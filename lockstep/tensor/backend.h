// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "lockstep/tensor/copy.h"
#include "lockstep/tensor/device.h"
#include "lockstep/tensor/memory_pool.h"

namespace lockstep {

// How long the host waits for a device unless told otherwise: far above any kernel, below patience.
inline constexpr std::chrono::milliseconds kDeviceDeadline{300000};

// When a piece of a device's work is done. A default-constructed event is done.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual bool is_done() = 0;
    virtual void wait(std::chrono::milliseconds deadline) = 0;
  };

  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool is_done() const { return state_ == nullptr || state_->is_done(); }
  // Throws what this or earlier work of the queue threw and nobody has heard of yet; IoError, which
  // names the device, when the work is not done by the deadline.
  void wait(std::chrono::milliseconds deadline = kDeviceDeadline) const {
    if (state_ != nullptr) state_->wait(deadline);
  }

 private:
  std::shared_ptr<State> state_;
};

// Where the kernels of a device find what lies at one of its addresses.
struct MemoryMap {
  std::ptrdiff_t shift = 0;
  std::byte* at(std::byte* address) const { return address == nullptr ? nullptr : address + shift; }
};

// What stands behind a device whose memory is not the host's: memory, copies, and a queue that runs
// what it is given in order, some time later. Memory that is freed may be given out again at once:
// whatever uses it next comes later in the queue. Any thread may call.
class Backend : public std::enable_shared_from_this<Backend> {
 public:
  virtual ~Backend() = default;

  virtual DeviceKind kernel_kind() const = 0;
  // Its addresses mean something to the device alone.
  virtual MemoryPool& memory() = 0;

  // `work` runs in the queue's turn; the map is valid during the call.
  using Work = std::function<void(const MemoryMap& memory)>;
  virtual Event submit(Work work) = 0;

  // The host's bytes stay as they are until the event is done; `owner`, if there is one, is kept
  // that long.
  virtual Event copy_in(std::span<const std::byte> host, std::byte* address,
                        std::shared_ptr<const void> owner = nullptr) = 0;
  // What the host's bytes are before the event is done is undefined.
  virtual Event copy_out(std::byte* address, std::span<std::byte> host) = 0;
  // As copy_strided, inside the device's memory.
  virtual Event copy(const Shape& shape, const StridedPointer& source,
                     const StridedPointer& target) = 0;

  // Waits until all that was submitted is done.
  void synchronize(std::chrono::milliseconds deadline = kDeviceDeadline) {
    submit([](const MemoryMap&) {}).wait(deadline);
  }
};

// Of the kernels that compute on the device.
inline DeviceKind kernel_kind(const Device& device) {
  return device.is_host() ? DeviceKind::cpu : device.backend->kernel_kind();
}

}  // namespace lockstep
