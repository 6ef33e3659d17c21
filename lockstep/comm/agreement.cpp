// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/agreement.h"

#include <algorithm>

namespace lockstep::comm {

namespace {

constexpr std::uint64_t kLongestText = 1 << 30;  // more is no length

void check_length(const Communicator& group, std::size_t of, std::uint64_t length) {
  if (length <= kLongestText) return;
  const int rank = static_cast<int>(of);
  throw PeerLost(fmt::format("share_texts: rank {} on {} says {} bytes, expected at most {}: the "
                             "ranks' calls do not match",
                             rank, group.host(rank), length, kLongestText),
                 rank, group.host(rank), "share_texts");
}

}  // namespace

// Everybody sends as much as the longest has.
std::vector<std::string> share_texts(Communicator& group, const std::string& own,
                                     const CallOptions& options) {
  const std::uint64_t length = own.size();
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(&length, 1)), std::as_writable_bytes(std::span(lengths)),
                   options);
  for (std::size_t rank = 0; rank < lengths.size(); ++rank)
    check_length(group, rank, lengths[rank]);
  const std::size_t part = *std::max_element(lengths.begin(), lengths.end());
  std::string sent = own, received(part * lengths.size(), '\0');
  sent.resize(part);
  group.all_gather(std::as_bytes(std::span(sent)), std::as_writable_bytes(std::span(received)),
                   options);
  std::vector<std::string> all;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank)
    all.push_back(received.substr(rank * part, lengths[rank]));
  return all;
}

void compare_texts(const std::vector<std::string>& all, const Differs& differs) {
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0]) differs(rank, all[0], all[rank]);
}

}  // namespace lockstep::comm
