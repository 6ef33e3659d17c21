// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/comm/errors.h"

namespace lockstep::comm {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// Bytes on their way to or from a peer.
struct Transfer {
  enum class Kind { send, receive };
  Kind kind = Kind::send;
  int peer = 0;
  std::span<std::byte> bytes = {};  // a send reads them only
  std::size_t done = 0;             // how many have moved
};

// Connects the ranks of a group. From one rank to another, bytes are a stream: they arrive in the
// order in which they were sent, however they were cut. One thread at a time; abort() from any.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& host(int rank) const = 0;

  // Moves all transfers on together until each is done: a rank that sends and receives at once
  // never waits for itself. Throws PeerLost, Timeout (naming a peer that has not done its part) or
  // Aborted; `operation` is for their messages. After an error the streams are broken for good.
  virtual void exchange(std::span<Transfer> transfers, Deadline deadline,
                        std::string_view operation) = 0;

  // Every exchange, here and on the peers, now and later, throws Aborted with the reason (peers
  // that cannot be reached find out by PeerLost or Timeout).
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace lockstep::comm
