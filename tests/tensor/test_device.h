// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "lockstep/tensor/backend.h"

namespace lockstep::testing {

// A device with everything that makes devices hard, and the CPU's kernels behind it. Its addresses
// are pages that nobody may touch; its memory is elsewhere. Its queue runs on a thread of its own,
// and not before somebody waits: then as far as is waited for. What the host is to get is NaN until
// then.
class TestDevice final : public Backend {
 public:
  struct Options {
    int index = 0;
    DeviceKind kernels = DeviceKind::cpu;
  };
  static std::shared_ptr<TestDevice> make(const Options& options);
  static std::shared_ptr<TestDevice> make() { return make({}); }
  ~TestDevice() override;

  Device device() { return {DeviceKind::test, options_.index, this}; }
  // Pieces of work that were submitted and have not run.
  std::size_t waiting() const;

  DeviceKind kernel_kind() const override { return options_.kernels; }
  MemoryPool& memory() override { return pool_; }
  Event submit(Work work) override;
  Event copy_in(std::span<const std::byte> host, std::byte* address,
                std::shared_ptr<const void> owner) override;
  Event copy_out(std::byte* address, std::span<std::byte> host) override;
  Event copy(const Shape& shape, const StridedPointer& source,
             const StridedPointer& target) override;

 private:
  class Queue;
  class EventState;
  explicit TestDevice(const Options& options);

  // Two reservations of the same size: one for the addresses, one for what lies behind them.
  class HiddenMemory final : public MemorySource {
   public:
    HiddenMemory();
    ~HiddenMemory() override;
    HiddenMemory(const HiddenMemory&) = delete;
    HiddenMemory& operator=(const HiddenMemory&) = delete;
    std::byte* take(std::size_t size) override;
    void give(std::byte* block, std::size_t size) override;
    std::ptrdiff_t shift() const { return real_ - shown_; }

   private:
    std::byte* shown_;
    std::byte* real_;
    std::size_t used_ = 0;
    std::map<std::size_t, std::vector<std::byte*>> free_;
  };

  Options options_;
  HiddenMemory hidden_;
  MemoryPool pool_{hidden_};
  std::shared_ptr<Queue> queue_;
};

}  // namespace lockstep::testing
