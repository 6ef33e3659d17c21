// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// Some of a transport's ranks, numbered from 0 in the order given, over the transport's own
// streams: for a step of an algorithm, during which nothing else goes over them. Groups that live
// longer are the transport's subgroups.
class SubTransport final : public Transport {
 public:
  SubTransport(Transport& whole, std::vector<int> ranks);

  std::string_view name() const override;
  int rank() const override;
  int size() const override;
  const std::string& host(int rank) const override;
  void exchange(std::span<Transfer> transfers, Deadline deadline,
                std::string_view operation) override;
  void abort(const std::string& reason) override;
  std::unique_ptr<Transport> subgroup(const std::vector<int>& ranks, Deadline deadline) override;

 private:
  Transport& whole_;
  std::vector<int> ranks_;
  int rank_ = -1;
};

}  // namespace lockstep::comm
