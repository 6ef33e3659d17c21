// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "lockstep/comm/detail/lifeline.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm::detail {

// What transports between hosts have in common: a lifeline, which knows the group.
class LifelineTransport : public Transport {
 public:
  int rank() const override { return lifeline_.rank(); }
  int size() const override { return lifeline_.size(); }
  const std::string& host(int rank) const override { return lifeline_.host(rank); }
  void abort(const std::string& reason) override { lifeline_.abort(reason); }

 protected:
  LifelineTransport(const Bootstrap& bootstrap, std::vector<Socket> sockets)
      : lifeline_(bootstrap, std::move(sockets)) {}
  Lifeline lifeline_;
};

}  // namespace lockstep::comm::detail
