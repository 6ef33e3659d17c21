// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// Some of a transport's ranks, numbered from 0 in the order given, over the transport's own
// streams. It lives no longer than the transport, and they are one at a time: never both at once.
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

 private:
  Transport& whole_;
  std::vector<int> ranks_;
  int rank_ = -1;
};

}  // namespace lockstep::comm
