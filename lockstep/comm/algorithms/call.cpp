// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/algorithms/call.h"

#include <algorithm>
#include <limits>

namespace lockstep::comm {

void Exchange::send(int peer, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  // A transfer has one type for both directions; a send only reads.
  const std::span<std::byte> same{const_cast<std::byte*>(bytes.data()), bytes.size()};
  transfers_.push_back({Transfer::Kind::send, peer, same});
  turns_.push_back(std::numeric_limits<std::size_t>::max());
}

void Exchange::receive(int peer, std::span<std::byte> bytes, std::size_t turn) {
  if (bytes.empty()) return;
  transfers_.push_back({Transfer::Kind::receive, peer, bytes});
  turns_.push_back(turn);
}

void Exchange::run(const Call& call) {
  for (Transfer& one : transfers_) one.later = false;
  if (!transfers_.empty()) call.transport.exchange(transfers_, call.deadline, call.operation);
  transfers_.clear();
  turns_.clear();
}

void Exchange::run_turn(const Call& call, std::size_t turn) {
  for (std::size_t i = 0; i < transfers_.size(); ++i) transfers_[i].later = turns_[i] > turn;
  if (!transfers_.empty()) call.transport.exchange(transfers_, call.deadline, call.operation);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    if (transfers_[i].done == transfers_[i].bytes.size()) continue;
    turns_[kept] = turns_[i];
    transfers_[kept++] = transfers_[i];
  }
  transfers_.resize(kept);
  turns_.resize(kept);
}

std::vector<ElementRange> split_evenly(std::size_t elements, int parts) {
  constexpr std::size_t kLine = 64;
  const auto count = static_cast<std::size_t>(parts);
  const std::size_t unit = elements >= count * kLine ? kLine : 1;
  std::vector<ElementRange> slices;
  for (std::size_t i = 0, begin = 0; i < count; ++i) {
    const std::size_t end = i + 1 == count ? elements : elements / unit * (i + 1) / count * unit;
    slices.push_back({begin, end});
    begin = end;
  }
  return slices;
}

ElementRange subrange(const ElementRange& slice, std::size_t offset, std::size_t count) {
  const std::size_t begin = std::min(slice.begin + offset, slice.end);
  return {begin, std::min(begin + count, slice.end)};
}

ElementRanges subranges(const ElementRanges& slice, std::size_t offset, std::size_t count) {
  ElementRanges result;
  for (const ElementRange& range : slice) {
    const ElementRange part = subrange(range, offset, count);
    if (part.count() > 0) result.push_back(part);
    offset -= std::min(offset, range.count());
    count -= part.count();
  }
  return result;
}

std::size_t count_elements(const ElementRanges& ranges) {
  std::size_t count = 0;
  for (const ElementRange& range : ranges) count += range.count();
  return count;
}

std::vector<int> others(const Call& call) {
  std::vector<int> ranks;
  for (int i = 1; i < call.size(); ++i) ranks.push_back((call.rank() + i) % call.size());
  return ranks;
}

}  // namespace lockstep::comm
