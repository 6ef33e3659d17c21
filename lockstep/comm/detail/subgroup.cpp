// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/subgroup.h"

#include <algorithm>
#include <utility>

namespace lockstep::comm::detail {
namespace {

std::span<std::byte> bytes_of(std::string& text) {
  return std::as_writable_bytes(std::span(text.data(), text.size()));
}

// To and from every other rank of the group at once.
void swap(Transport& transport, const std::vector<int>& ranks, std::string& own,
          std::vector<std::string>& all, Deadline deadline) {
  std::vector<Transfer> transfers;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == transport.rank()) continue;
    transfers.push_back({Transfer::Kind::send, ranks[i], bytes_of(own)});
    transfers.push_back({Transfer::Kind::receive, ranks[i], bytes_of(all[i])});
  }
  transport.exchange(transfers, deadline, "split");
}

constexpr std::uint64_t kLongestAddress = 1 << 20;

std::vector<std::string> all_gather(Transport& transport, const std::vector<int>& ranks,
                                    std::string own, Deadline deadline) {
  std::uint64_t length = own.size();
  std::string own_length(reinterpret_cast<const char*>(&length), sizeof length);
  std::vector<std::string> lengths(ranks.size(), std::string(sizeof length, '\0'));
  swap(transport, ranks, own_length, lengths, deadline);
  std::vector<std::string> all(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::copy(lengths[i].begin(), lengths[i].end(), reinterpret_cast<char*>(&length));
    if (length > kLongestAddress)
      throw PeerLost(
          fmt::format("split: rank {} on {} says {} bytes: the ranks' calls do not match", ranks[i],
                      transport.host(ranks[i]), length),
          ranks[i], transport.host(ranks[i]), "split");
    if (ranks[i] != transport.rank()) all[i].resize(length);
  }
  swap(transport, ranks, own, all, deadline);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] == transport.rank()) all[i] = std::move(own);
  return all;
}

}  // namespace

Bootstrap subgroup_bootstrap(Transport& transport, const Bootstrap& whole,
                             const std::vector<int>& ranks, Deadline deadline,
                             std::function<void()> check_whole) {
  Bootstrap group = whole;
  const auto place = std::find(ranks.begin(), ranks.end(), transport.rank());
  check(place != ranks.end(), "a group is made by a rank that is not in it");
  group.rank = static_cast<int>(place - ranks.begin());
  group.hosts.clear();
  group.names.clear();
  for (const int rank : ranks) {
    group.hosts.push_back(transport.host(rank));
    group.names.push_back(whole.name(rank));
  }
  group.check = std::move(check_whole);
  group.timeout = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  group.all_gather = [&transport, ranks, deadline](const std::string& bytes) {
    return all_gather(transport, ranks, bytes, deadline);
  };
  return group;
}

}  // namespace lockstep::comm::detail
