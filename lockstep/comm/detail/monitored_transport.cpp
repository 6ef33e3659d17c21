// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/monitored_transport.h"

#include <algorithm>

#include "lockstep/comm/detail/subgroup.h"

namespace lockstep::comm::detail {
namespace {

// How long an exchange tries again before it sleeps: about as long as waking takes.
constexpr auto kSpin = std::chrono::microseconds(20);
// The side transfers' own failures are looked for this often.
constexpr auto kNap = std::chrono::milliseconds(20);
// Whether a group that is being made still should be is looked at this often.
constexpr auto kCheckTime = std::chrono::milliseconds(100);
// What a peer sent before it left has arrived by then.
constexpr auto kLeft = std::chrono::seconds(1);

int first_unfinished(std::span<const Transfer> transfers) {
  for (const Transfer& one : transfers)
    if (one.done < one.bytes.size() && !one.later) return one.peer;
  return -1;
}

}  // namespace

std::unique_ptr<Transport> MonitoredTransport::subgroup(const std::vector<int>& ranks,
                                                        Deadline deadline) {
  return connect_group(
      subgroup_bootstrap(*this, bootstrap_, ranks, deadline, [this] { monitor_.check("split"); }));
}

int MonitoredTransport::unfinished(std::span<const Transfer> transfers) const {
  const int peer = first_unfinished(transfers);
  return peer < 0 && side_ != nullptr ? first_unfinished(side_->transfers()) : peer;
}

void MonitoredTransport::greet_all(const Bootstrap& bootstrap) {
  check_ = bootstrap.check;
  std::vector<std::byte> bytes(2 * static_cast<std::size_t>(size()));
  std::vector<Transfer> transfers;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    const auto place = 2 * static_cast<std::size_t>(other);
    transfers.push_back({Transfer::Kind::send, other, {&bytes[place], 1}});
    transfers.push_back({Transfer::Kind::receive, other, {&bytes[place + 1], 1}});
  }
  exchange(transfers, Clock::now() + bootstrap.timeout, "connect");
  check_ = {};
}

void MonitoredTransport::complete(std::span<Transfer> transfers, Deadline deadline,
                                  std::string_view operation) {
  const Deadline begin = Clock::now();
  const std::size_t sent = bootstrap_.meter ? sent_of(transfers) : 0;
  Deadline moved_at = begin;
  while (true) {
    bool moved = move_on(transfers, operation);
    if (side_ != nullptr && side_->move_on(operation)) moved = true;
    const int peer = unfinished(transfers);
    if (peer < 0) break;
    const Deadline now = Clock::now();
    if (now >= deadline) time_out(transfers, operation, begin);
    if (moved) moved_at = now;
    monitor_.wait_for(peer);
    if (monitor_.has_left(peer) && now - moved_at > kLeft)
      monitor_.throw_lost(peer, operation, "it has left");
    if (now - moved_at > kSpin) rest(transfers, peer, deadline, operation);
  }
  if (bootstrap_.meter) bootstrap_.meter->add_sent(sent_of(transfers) - sent);
}

std::size_t MonitoredTransport::sent_of(std::span<const Transfer> transfers) {
  std::size_t bytes = 0;
  for (const Transfer& one : transfers) bytes += one.kind == Transfer::Kind::send ? one.done : 0;
  return bytes;
}

void MonitoredTransport::rest(std::span<Transfer> transfers, int peer, Deadline deadline,
                              std::string_view operation) {
  const Meter::Wait wait(bootstrap_.meter.get(), operation, monitor_.name(peer));
  if (check_) check_();
  if (check_) deadline = std::min<Deadline>(deadline, Clock::now() + kCheckTime);
  if (side_ == nullptr) {
    if (sleep(transfers, deadline)) monitor_.check(operation);
    return;
  }
  const bool quiet = side_->park();
  const bool news = quiet && sleep(transfers, std::min(deadline, Clock::now() + kNap));
  side_->unpark();
  if (news) monitor_.check(operation);
}

void MonitoredTransport::time_out(std::span<const Transfer> transfers, std::string_view operation,
                                  Deadline begin) {
  monitor_.check(operation);
  std::vector<Transfer> all(transfers.begin(), transfers.end());
  if (side_ != nullptr) {
    const std::span<const Transfer> more = side_->transfers();
    all.insert(all.end(), more.begin(), more.end());
  }
  monitor_.throw_timeout(all, operation, begin);
}

}  // namespace lockstep::comm::detail
