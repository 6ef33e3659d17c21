// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/comm/element_range.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// What every algorithm gets: whom it talks with, until when, and for whom.
struct Call {
  Transport& transport;
  Deadline deadline;
  std::string_view operation;

  int rank() const { return transport.rank(); }
  int size() const { return transport.size(); }
};

// Transfers that move on together. Those to (and those from) one peer keep their order.
class Exchange {
 public:
  void send(int peer, std::span<const std::byte> bytes);
  // `turn`: see run_turn.
  void receive(int peer, std::span<std::byte> bytes, std::size_t turn = 0);
  // Does them all, and forgets them.
  void run(const Call& call);
  // Goes on until all is received that belongs to this turn or an earlier one. Everything else
  // moves on meanwhile, and later: so the links are busy while this rank computes. All ranks must
  // add the same transfers in the same turns.
  void run_turn(const Call& call, std::size_t turn);

 private:
  std::vector<Transfer> transfers_;
  std::vector<std::size_t> turns_;
};

// `parts` slices of nearly the same length, cut where cache lines begin if they are long enough.
std::vector<ElementRange> split_evenly(std::size_t elements, int parts);
// The piece of `slice` from its element number `offset` on, at most `count` long; maybe empty.
ElementRange subrange(const ElementRange& slice, std::size_t offset, std::size_t count);
// The same of several, as if one stood after the other.
ElementRanges subranges(const ElementRanges& slice, std::size_t offset, std::size_t count);
std::size_t count_elements(const ElementRanges& ranges);

// Every rank but the caller, beginning after it: so that not all begin with the same one.
std::vector<int> others(const Call& call);

}  // namespace lockstep::comm
