// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/transports/in_process.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>

namespace lockstep::comm {

// Streams are queues of bytes of limited length, all under one lock: simple, and a good second
// opinion on transports that are neither.
struct InProcessGroup::Shared {
  // Some of the ranks, and how many of them are still to come.
  struct Subgroup {
    std::vector<int> ranks;
    std::shared_ptr<Shared> shared;
    std::size_t missing;
  };

  Shared(std::vector<std::string> names, std::size_t bytes)
      : hosts(std::move(names)),
        stream_bytes(bytes),
        streams(hosts.size() * hosts.size()),
        dead(hosts.size()) {}

  std::vector<std::string> hosts;
  std::vector<int> called = {};  // empty: as they are numbered
  std::size_t stream_bytes;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::deque<std::byte>> streams;  // from * size + to
  std::vector<bool> dead;
  std::string abort_reason;
  int aborter = -1;
  std::vector<Subgroup> subgroups = {};

  std::deque<std::byte>& stream(int from, int to) {
    return streams[static_cast<std::size_t>(from) * hosts.size() + static_cast<std::size_t>(to)];
  }
  // What messages and errors call a rank: as the whole group does.
  int name(int rank) const {
    return called.empty() ? rank : called[static_cast<std::size_t>(rank)];
  }
  bool is_dead(int rank) const { return dead[static_cast<std::size_t>(rank)]; }
  void mark_dead(int rank) {
    const std::lock_guard lock(mutex);
    dead[static_cast<std::size_t>(rank)] = true;
    changed.notify_all();
  }
  // In all groups that have been made of this one, too.
  void kill(int rank) {
    mark_dead(rank);
    const std::lock_guard lock(mutex);
    for (const Subgroup& group : subgroups)
      if (const auto place = std::find(group.ranks.begin(), group.ranks.end(), rank);
          place != group.ranks.end())
        group.shared->kill(static_cast<int>(place - group.ranks.begin()));
  }
  // The first of the ranks to come makes it. All come to the groups in the same order.
  std::shared_ptr<Shared> join(const std::vector<int>& ranks, int rank) {
    const std::lock_guard lock(mutex);
    const auto waits = [&](const Subgroup& group) {
      return group.ranks == ranks && group.missing > 0 && !group.shared->has_come(rank);
    };
    std::erase_if(subgroups, [](const Subgroup& group) {
      return group.missing == 0 && group.shared.use_count() == 1;
    });
    auto place = std::find_if(subgroups.begin(), subgroups.end(), waits);
    if (place == subgroups.end()) {
      std::vector<std::string> names;
      for (const int one : ranks) names.push_back(hosts[static_cast<std::size_t>(one)]);
      subgroups.push_back(
          {ranks, std::make_shared<Shared>(std::move(names), stream_bytes), ranks.size()});
      for (const int one : ranks) subgroups.back().shared->called.push_back(name(one));
      place = subgroups.end() - 1;
    }
    --place->missing;
    place->shared->come.push_back(rank);
    return place->shared;
  }
  bool has_come(int rank) const { return std::find(come.begin(), come.end(), rank) != come.end(); }
  std::vector<int> come = {};  // under the whole group's names and its lock
};

class InProcessTransport final : public Transport {
 public:
  InProcessTransport(std::shared_ptr<InProcessGroup::Shared> shared, int rank)
      : owner_(std::move(shared)), shared_(*owner_), rank_(rank) {}
  ~InProcessTransport() override { shared_.mark_dead(rank_); }
  InProcessTransport(const InProcessTransport&) = delete;
  InProcessTransport& operator=(const InProcessTransport&) = delete;

  std::string_view name() const override { return "in_process"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_.hosts.size()); }
  const std::string& host(int rank) const override {
    return shared_.hosts[static_cast<std::size_t>(rank)];
  }

  void exchange(std::span<Transfer> transfers, Deadline deadline,
                std::string_view operation) override {
    std::unique_lock lock(shared_.mutex);
    while (true) {
      check_abort(operation);
      const bool moved = move_all(transfers);
      if (moved) shared_.changed.notify_all();
      const Transfer* waiting = first_open(transfers);
      if (waiting == nullptr) return;
      if (moved) continue;
      check_peer(*waiting, operation);
      if (shared_.changed.wait_until(lock, deadline) == std::cv_status::timeout)
        throw Timeout(fmt::format("{}: rank {} on {} has not done its part in time", operation,
                                  shared_.name(waiting->peer), host(waiting->peer)),
                      shared_.name(waiting->peer), host(waiting->peer), std::string(operation));
    }
  }

  std::unique_ptr<Transport> subgroup(const std::vector<int>& ranks,
                                      Deadline /*deadline*/) override {
    const auto place = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
    return std::make_unique<InProcessTransport>(shared_.join(ranks, rank_),
                                                static_cast<int>(place));
  }

  void abort(const std::string& reason) override {
    const std::lock_guard lock(shared_.mutex);
    if (shared_.aborter < 0) {
      shared_.aborter = rank_;
      shared_.abort_reason = reason;
    }
    shared_.changed.notify_all();
  }

 private:
  // One stream carries one transfer at a time, the first that is not done.
  bool move_all(std::span<Transfer> transfers) {
    bool moved = false;
    std::vector<std::pair<Transfer::Kind, int>> busy;
    for (Transfer& transfer : transfers) {
      const std::pair stream{transfer.kind, transfer.peer};
      if (std::find(busy.begin(), busy.end(), stream) != busy.end()) continue;
      moved = move(transfer) || moved;
      if (transfer.done < transfer.bytes.size()) busy.push_back(stream);
    }
    return moved;
  }

  bool move(Transfer& transfer) {
    const std::span<std::byte> rest = transfer.bytes.subspan(transfer.done);
    std::size_t count;
    if (transfer.kind == Transfer::Kind::send) {
      std::deque<std::byte>& stream = shared_.stream(rank_, transfer.peer);
      count = std::min(rest.size(), shared_.stream_bytes - stream.size());
      stream.insert(stream.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(count));
    } else {
      std::deque<std::byte>& stream = shared_.stream(transfer.peer, rank_);
      count = std::min(rest.size(), stream.size());
      const auto end = stream.begin() + static_cast<std::ptrdiff_t>(count);
      std::copy(stream.begin(), end, rest.begin());
      stream.erase(stream.begin(), end);
    }
    transfer.done += count;
    return count > 0;
  }

  // Somebody dead among those still needed comes first: it is the one to name.
  const Transfer* first_open(std::span<const Transfer> transfers) const {
    const Transfer* open = nullptr;
    for (const Transfer& transfer : transfers) {
      if (transfer.done == transfer.bytes.size()) continue;
      if (open == nullptr || shared_.is_dead(transfer.peer)) open = &transfer;
    }
    return open;
  }

  void check_abort(std::string_view operation) const {
    if (shared_.aborter >= 0)
      throw Aborted(fmt::format("{}: aborted by rank {}: {}", operation,
                                shared_.name(shared_.aborter), shared_.abort_reason),
                    shared_.name(shared_.aborter), host(shared_.aborter), std::string(operation));
  }

  void check_peer(const Transfer& waiting, std::string_view operation) const {
    const int lost = shared_.is_dead(rank_) ? rank_ : waiting.peer;
    if (shared_.is_dead(lost))
      throw PeerLost(
          fmt::format("{}: rank {} on {} is gone", operation, shared_.name(lost), host(lost)),
          shared_.name(lost), host(lost), std::string(operation));
  }

  std::shared_ptr<InProcessGroup::Shared> owner_;
  InProcessGroup::Shared& shared_;
  int rank_;
};

InProcessGroup::InProcessGroup(std::vector<std::string> hosts, std::size_t stream_bytes)
    : shared_(std::make_shared<Shared>(std::move(hosts), stream_bytes)) {}

InProcessGroup::~InProcessGroup() = default;

std::unique_ptr<Transport> InProcessGroup::connect(int rank) {
  check(rank >= 0 && rank < static_cast<int>(shared_->hosts.size()), "no such rank in the group");
  return std::make_unique<InProcessTransport>(shared_, rank);
}

void InProcessGroup::kill(int rank) { shared_->kill(rank); }

}  // namespace lockstep::comm
