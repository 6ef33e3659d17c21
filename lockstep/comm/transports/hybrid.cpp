// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/transports/hybrid.h"

#include <algorithm>
#include <utility>

#include "lockstep/comm/algorithms/hierarchical.h"
#include "lockstep/comm/algorithms/tree.h"
#include "lockstep/comm/detail/monitored_transport.h"
#include "lockstep/comm/detail/shm_transport.h"
#include "lockstep/comm/detail/subgroup.h"

// An exchange with ranks here and elsewhere is one of the transport between hosts, and shared
// memory goes along with it: both take turns, and when nothing moves the rank sleeps on the
// sockets, where a rank of its host that has something for it wakes it. A call that needs the own
// host only waits in shared memory. Whatever fails, the monitor of all ranks says so: who waits in
// shared memory looks at it now and then.
namespace lockstep::comm {
namespace {

constexpr std::size_t kSmall = 4096;  // bytes; below, one hop is worth more than the link's

std::vector<std::vector<int>> ranks_by_host(const std::vector<std::string>& hosts) {
  std::vector<std::vector<int>> result;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto same = [&](const std::vector<int>& host) {
      return hosts[static_cast<std::size_t>(host.front())] == hosts[rank];
    };
    const auto place = std::find_if(result.begin(), result.end(), same);
    if (place == result.end())
      result.push_back({static_cast<int>(rank)});
    else
      place->push_back(static_cast<int>(rank));
  }
  return result;
}

// The transfers of an exchange that stay on the host, under the group's numbers and the host's.
class InsideTransfers final : public detail::SideTransfers {
 public:
  explicit InsideTransfers(detail::ShmTransport* inside) : inside_(inside) {}

  void add(const Transfer& transfer, int place) {
    named_.push_back(transfer);
    placed_.push_back(transfer);
    placed_.back().peer = place;
  }
  bool is_empty() const { return named_.empty(); }
  std::span<Transfer> placed() { return placed_; }

  std::span<const Transfer> transfers() const override { return named_; }
  bool move_on(std::string_view operation) override {
    const bool moved = inside_->move_on(placed_, operation);
    for (std::size_t i = 0; moved && i < named_.size(); ++i) named_[i].done = placed_[i].done;
    return moved;
  }
  bool park() override { return inside_->park(); }
  void unpark() override { inside_->unpark(); }

 private:
  detail::ShmTransport* inside_;
  std::vector<Transfer> named_, placed_;
};

class HybridTransport final : public Transport {
 public:
  HybridTransport(const Bootstrap& bootstrap, std::unique_ptr<Transport> between)
      : owner_(std::move(between)),
        between_(dynamic_cast<detail::MonitoredTransport&>(*owner_)),
        name_(fmt::format("shm+{}", owner_->name())),
        hosts_(ranks_by_host(bootstrap.hosts)),
        place_(bootstrap.hosts.size(), -1) {
    const std::vector<std::string> names = bootstrap.all_gather(random_shm_name());
    for (const std::vector<int>& host : hosts_)
      if (std::count(host.begin(), host.end(), bootstrap.rank) > 0) here_ = &host;
    for (std::size_t i = 0; i < here_->size(); ++i)
      place_[static_cast<std::size_t>((*here_)[i])] = static_cast<int>(i);
    if (here_->size() > 1) join_host(bootstrap, names);
  }

  std::string_view name() const override { return name_; }
  int rank() const override { return between_.rank(); }
  int size() const override { return between_.size(); }
  const std::string& host(int rank) const override { return between_.host(rank); }

  void exchange(std::span<Transfer> transfers, Deadline deadline,
                std::string_view operation) override;
  bool tree_reduce(const TreeCall& tree, Deadline deadline, std::string_view operation) override;

  std::unique_ptr<Transport> subgroup(const std::vector<int>& ranks, Deadline deadline) override;

  // Who hears of it by the monitor does not tell the host again.
  void abort(const std::string& reason) override {
    if (between_.monitor().abort(reason) && inside_) inside_->abort(reason);
  }

 private:
  void join_host(const Bootstrap& bootstrap, const std::vector<std::string>& names);
  void watch(int peer, Deadline deadline, std::string_view operation);
  int place(int rank) const { return place_[static_cast<std::size_t>(rank)]; }
  bool is_inside(const Transfer& one) const;
  void exchange_both(InsideTransfers& inside, std::span<Transfer> outside, Deadline deadline,
                     std::string_view operation);
  void exchange_inside(InsideTransfers& inside, Deadline deadline, std::string_view operation);

  std::unique_ptr<Transport> owner_;
  detail::MonitoredTransport& between_;
  std::string name_;
  std::vector<std::vector<int>> hosts_;
  const std::vector<int>* here_ = nullptr;  // this host's ranks
  std::vector<int> place_;                  // by rank: where among these, or -1
  std::unique_ptr<detail::ShmTransport> inside_;
  Deadline begin_ = {};  // of the call at hand
  int missed_ = -1;      // a rank that has left and is waited for
};

void HybridTransport::join_host(const Bootstrap& bootstrap, const std::vector<std::string>& names) {
  ShmOptions options;
  options.group = names[static_cast<std::size_t>(here_->front())];
  options.rank = place(bootstrap.rank);
  options.size = static_cast<int>(here_->size());
  options.host = host(bootstrap.rank);
  options.timeout = bootstrap.timeout;
  options.check = bootstrap.check;
  options.meter = bootstrap.meter;
  for (const int rank : *here_) options.names.push_back(bootstrap.name(rank));
  const auto rank_at = [this](int peer) { return (*here_)[static_cast<std::size_t>(peer)]; };
  options.on_wait = [this, rank_at](int peer, Deadline deadline, std::string_view operation) {
    watch(rank_at(peer), deadline, operation);
  };
  options.wake = [this, rank_at](int peer) { between_.monitor().wake(rank_at(peer)); };
  inside_ = std::make_unique<detail::ShmTransport>(options);
}

// While this rank waits in shared memory.
void HybridTransport::watch(int peer, Deadline deadline, std::string_view operation) {
  between_.monitor().wait_for(peer);
  between_.monitor().check(operation);
  // What a rank did before it left is there by the second look.
  const bool left = between_.monitor().has_left(peer);
  if (std::exchange(missed_, left ? peer : -1) == peer && left)
    between_.monitor().throw_lost(peer, operation, "it has left");
  if (Clock::now() >= deadline) between_.monitor().throw_timeout(peer, operation, begin_);
}

void HybridTransport::exchange_inside(InsideTransfers& inside, Deadline deadline,
                                      std::string_view operation) {
  between_.monitor().check(operation);
  for (const Transfer& one : inside.placed())
    if (one.peer == inside_->rank())
      throw InvalidArgument("{}: rank {} of {} has no peer {}", operation, rank(), size(), rank());
  inside_->exchange(inside.placed(), deadline, operation);
}

bool HybridTransport::is_inside(const Transfer& one) const {
  return inside_ && one.peer >= 0 && one.peer < size() && place(one.peer) >= 0;
}

void HybridTransport::exchange(std::span<Transfer> transfers, Deadline deadline,
                               std::string_view operation) {
  begin_ = Clock::now();
  InsideTransfers inside(inside_.get());
  std::vector<Transfer> outside;
  for (const Transfer& one : transfers)
    if (is_inside(one))
      inside.add(one, place(one.peer));
    else
      outside.push_back(one);
  if (outside.empty() && !inside.is_empty())
    exchange_inside(inside, deadline, operation);
  else
    exchange_both(inside, outside, deadline, operation);
  std::size_t in = 0, out = 0;
  for (Transfer& one : transfers)
    one.done = is_inside(one) ? inside.placed()[in++].done : outside[out++].done;
}

void HybridTransport::exchange_both(InsideTransfers& inside, std::span<Transfer> outside,
                                    Deadline deadline, std::string_view operation) {
  const auto alone = [](detail::MonitoredTransport* one) { one->set_side_transfers(nullptr); };
  const std::unique_ptr<detail::MonitoredTransport, decltype(alone)> guard(&between_);
  if (!inside.is_empty()) between_.set_side_transfers(&inside);
  between_.exchange(outside, deadline, operation);
}

std::unique_ptr<Transport> HybridTransport::subgroup(const std::vector<int>& ranks,
                                                     Deadline deadline) {
  const Bootstrap group = detail::subgroup_bootstrap(*this, between_.bootstrap(), ranks, deadline,
                                                     [this] { between_.monitor().check("split"); });
  const std::vector<std::vector<int>> hosts = ranks_by_host(group.hosts);
  if (hosts.size() == 1) return connect_shm_group(group);
  std::unique_ptr<Transport> between = between_.connect_group(group);
  if (hosts.size() == ranks.size()) return between;
  return std::make_unique<HybridTransport>(group, std::move(between));
}

bool HybridTransport::tree_reduce(const TreeCall& tree, Deadline deadline,
                                  std::string_view operation) {
  if (tree.result.size() <= kSmall) return false;
  begin_ = Clock::now();
  const Call call{*this, deadline, operation};
  std::vector<ShardRange> ranges(tree.ranges.begin(), tree.ranges.end());
  if (ranges.empty()) ranges = exchange_ranges(call, tree.shards, tree.range);
  hierarchical_reduce(call, tree, ranges, hosts_, inside_.get());
  return true;
}

}  // namespace

std::unique_ptr<Transport> connect_hybrid(const Bootstrap& bootstrap,
                                          std::unique_ptr<Transport> between) {
  return std::make_unique<HybridTransport>(bootstrap, std::move(between));
}

}  // namespace lockstep::comm
