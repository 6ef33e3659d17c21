// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/detail/shm_reduction.h"
#include "lockstep/comm/detail/shm_waiter.h"

namespace lockstep::comm::detail {

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(const ShmOptions& options);
  ~ShmTransport() override;
  ShmTransport(const ShmTransport&) = delete;
  ShmTransport& operator=(const ShmTransport&) = delete;

  std::string_view name() const override { return "shm"; }
  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  const std::string& host(int /*rank*/) const override { return options_.host; }

  void exchange(std::span<Transfer> transfers, Deadline deadline,
                std::string_view operation) override;
  bool tree_reduce(const TreeCall& call, Deadline deadline, std::string_view operation) override;
  bool barrier(Deadline deadline, std::string_view operation) override;
  std::span<std::byte> allocate(std::size_t bytes, Deadline deadline) override;
  void abort(const std::string& reason) override;
  std::unique_ptr<Transport> subgroup(const std::vector<int>& ranks, Deadline deadline) override;

  // For whoever waits for these and for something else at once. One turn, without waiting; true
  // when something moved.
  bool move_on(std::span<Transfer> transfers, std::string_view operation);
  // Around a sleep elsewhere, which ShmOptions::wake ends. False: something of the last turn's
  // transfers can move.
  bool park();
  void unpark() { waiter_.unpark(); }

 private:
  ShmCall call_of(Deadline deadline, std::string_view operation);
  std::span<std::byte> share_memory(std::size_t bytes, Deadline deadline);
  bool have_all(bool own, Deadline deadline);
  bool move_open(std::span<Transfer> transfers);
  void find_open(std::span<Transfer> transfers);
  std::size_t room(const Transfer& transfer) const;
  int blocker() const;
  bool move(Transfer& transfer);
  void send(int peer, const std::byte* from, std::size_t count);
  void write(int peer, const std::byte* from, std::size_t count);
  void read(int peer, std::byte* to, std::size_t count);

  ShmOptions options_;
  ShmSegment segment_;
  ShmWaiter waiter_;
  ShmMemory memory_;
  ShmProgress progress_;
  std::vector<Transfer*> open_;
};

}  // namespace lockstep::comm::detail
