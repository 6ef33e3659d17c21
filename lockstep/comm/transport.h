// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/shard_tree.h"
#include "lockstep/comm/element.h"
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
  // It moves on as long as others are waited for; the next exchange may bring it again. Transports
  // that cannot leave it half done wait for it too, so what it needs of its peer must be in the
  // peer's exchange of the same turn.
  bool later = false;
};

// What a rank brings to a reduction in the canonical tree's order over `shards` shards.
struct TreeCall {
  Element element = Element::float32;
  Reduction reduction = Reduction::sum;
  std::int64_t shards = 0;
  ShardRange range{0, 0};                        // this rank's
  std::span<const std::byte* const> nodes = {};  // one for each of subtrees_in(shards, range)
  std::span<std::byte> result = {};              // may be the only node's own bytes
  std::span<const ShardRange> ranges = {};       // every rank's; empty: known to themselves only
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

  // Moves all transfers on together until each is done that is not for later: a rank that sends and
  // receives at once never waits for itself. Throws PeerLost, Timeout (naming a peer that has not
  // done its part) or Aborted; `operation` is for their messages. After an error the streams are
  // broken for good.
  virtual void exchange(std::span<Transfer> transfers, Deadline deadline,
                        std::string_view operation) = 0;

  // Every exchange, here and on the peers, now and later, throws Aborted with the reason (peers
  // that cannot be reached find out by PeerLost or Timeout).
  virtual void abort(const std::string& reason) = 0;

  // What some transports do better than by exchanges; false where they do not. All ranks get the
  // same answer.
  virtual bool tree_reduce(const TreeCall& call, Deadline deadline, std::string_view operation);
  virtual bool native_all_reduce(std::span<std::byte> data, Element element, Reduction reduction,
                                 Deadline deadline, std::string_view operation);
  virtual bool barrier(Deadline deadline, std::string_view operation);
  // Zeros that every rank sees, so many for each; empty: there is no such memory. All ranks call
  // it.
  virtual std::span<std::byte> allocate(std::size_t bytes, Deadline deadline);
  // A transport for some of the ranks, in the order given and called by these, with channels of its
  // own: what goes over it and what goes over this one do not wait for each other.
  virtual std::unique_ptr<Transport> subgroup(const std::vector<int>& ranks, Deadline deadline) = 0;
};

}  // namespace lockstep::comm
