// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/algorithms/call.h"

#include <algorithm>

namespace lockstep::comm {

void Exchange::send(int peer, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  // A transfer has one type for both directions; a send only reads.
  const std::span<std::byte> same{const_cast<std::byte*>(bytes.data()), bytes.size()};
  transfers_.push_back({Transfer::Kind::send, peer, same});
}

void Exchange::receive(int peer, std::span<std::byte> bytes) {
  if (!bytes.empty()) transfers_.push_back({Transfer::Kind::receive, peer, bytes});
}

void Exchange::run(const Call& call) {
  if (!transfers_.empty()) call.transport.exchange(transfers_, call.deadline, call.operation);
  transfers_.clear();
}

std::vector<Slice> cut(std::size_t elements, int parts) {
  constexpr std::size_t kLine = 64;
  const auto count = static_cast<std::size_t>(parts);
  const std::size_t unit = elements >= count * kLine ? kLine : 1;
  std::vector<Slice> slices;
  for (std::size_t i = 0, begin = 0; i < count; ++i) {
    const std::size_t end = i + 1 == count ? elements : elements / unit * (i + 1) / count * unit;
    slices.push_back({begin, end});
    begin = end;
  }
  return slices;
}

Slice piece(const Slice& slice, std::size_t offset, std::size_t count) {
  const std::size_t begin = std::min(slice.begin + offset, slice.end);
  return {begin, std::min(begin + count, slice.end)};
}

std::vector<int> others(const Call& call) {
  std::vector<int> ranks;
  for (int i = 1; i < call.size(); ++i) ranks.push_back((call.rank() + i) % call.size());
  return ranks;
}

}  // namespace lockstep::comm
