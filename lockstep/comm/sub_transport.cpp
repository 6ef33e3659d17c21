// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/sub_transport.h"

#include <algorithm>

namespace lockstep::comm {

SubTransport::SubTransport(Transport& whole, std::vector<int> ranks)
    : whole_(whole), ranks_(std::move(ranks)) {
  const auto place = std::find(ranks_.begin(), ranks_.end(), whole.rank());
  check(place != ranks_.end(), "a group is used by a rank that is not in it");
  rank_ = static_cast<int>(place - ranks_.begin());
}

std::string_view SubTransport::name() const { return whole_.name(); }
int SubTransport::rank() const { return rank_; }
int SubTransport::size() const { return static_cast<int>(ranks_.size()); }

const std::string& SubTransport::host(int rank) const {
  return whole_.host(ranks_[static_cast<std::size_t>(rank)]);
}

void SubTransport::exchange(std::span<Transfer> transfers, Deadline deadline,
                            std::string_view operation) {
  std::vector<Transfer> renamed(transfers.begin(), transfers.end());
  for (Transfer& transfer : renamed)
    transfer.peer = ranks_[static_cast<std::size_t>(transfer.peer)];
  whole_.exchange(renamed, deadline, operation);
  for (std::size_t i = 0; i < renamed.size(); ++i) transfers[i].done = renamed[i].done;
}

std::unique_ptr<Transport> SubTransport::subgroup(const std::vector<int>& ranks,
                                                  Deadline deadline) {
  std::vector<int> renamed;
  for (const int rank : ranks) renamed.push_back(ranks_[static_cast<std::size_t>(rank)]);
  return whole_.subgroup(renamed, deadline);
}

void SubTransport::abort(const std::string& reason) { whole_.abort(reason); }

}  // namespace lockstep::comm
