// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <set>

#include "lockstep/comm/algorithms/central.h"
#include "lockstep/comm/algorithms/hierarchical.h"
#include "lockstep/comm/algorithms/movement.h"
#include "lockstep/comm/algorithms/ring.h"
#include "lockstep/comm/algorithms/tree.h"
#include "lockstep/comm/call_queue.h"

namespace lockstep::comm {
namespace {

class StartedCall final : public Work {
 public:
  explicit StartedCall(std::shared_future<void> future) : future_(std::move(future)) {}
  ~StartedCall() override { future_.wait(); }
  bool is_done() override {
    return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  void wait() override { future_.get(); }

 private:
  std::shared_future<void> future_;
};

std::vector<std::vector<int>> find_topology(const Transport& transport) {
  std::vector<std::vector<int>> hosts;
  for (int rank = 0; rank < transport.size(); ++rank) {
    const auto same = [&](const std::vector<int>& host) {
      return transport.host(host.front()) == transport.host(rank);
    };
    const auto place = std::find_if(hosts.begin(), hosts.end(), same);
    if (place == hosts.end())
      hosts.push_back({rank});
    else
      place->push_back(rank);
  }
  return hosts;
}

void check_rank(const char* operation, int rank, int size) {
  if (rank < 0 || rank >= size)
    throw InvalidArgument("{}: there is no rank {}, the group has {}", operation, rank, size);
}

void check_elements(const char* operation, std::size_t bytes, Element element) {
  if (bytes % element_size(element) != 0)
    throw InvalidArgument("{}: got {} bytes, which are not whole elements of {}", operation, bytes,
                          element_name(element));
}

void check_bytes(const char* operation, const char* what, std::size_t got, std::size_t expected) {
  if (got != expected)
    throw InvalidArgument("{}: {} has {} bytes, expected {}", operation, what, got, expected);
}

}  // namespace

// The groups that a communicator was split into, and that live.
struct Groups {
  std::mutex mutex;
  std::set<Communicator*> open;
  std::optional<std::string> aborted;  // why: groups that are being made meanwhile are aborted too
};

struct Communicator::Impl {
  explicit Impl(std::unique_ptr<Transport> given) : transport(std::move(given)) {}

  std::unique_ptr<Transport> transport;
  std::vector<std::vector<int>> topology = find_topology(*transport);
  std::vector<ShardRange> one_each = rank_ranges(transport->size());
  std::vector<std::vector<std::byte>> memory = {};  // allocated here, and seen by no other rank
  std::span<std::byte> common = {};
  std::shared_ptr<Groups> groups = std::make_shared<Groups>();
  std::shared_ptr<Groups> siblings = nullptr;  // with this one among them
  std::shared_ptr<Meter> meter = nullptr;
  std::exception_ptr broken = nullptr;  // the first error; touched by the running call only
  CallQueue queue = {};                 // the last, so that what it runs to its end finds the rest

  std::size_t size() const { return static_cast<std::size_t>(transport->size()); }

  // Runs the body in its turn. Whatever it throws breaks the communicator, since the streams may be
  // out of step, and peers are told; but for InvalidArgument, which every rank finds alike in what
  // all have told each other, with nothing on its way.
  template <class F>
  void run(const char* operation, const CallOptions& options, const F& body) {
    queue.run([&] {
      if (broken) std::rethrow_exception(broken);
      const Call call{*transport, Clock::now() + options.timeout, operation};
      try {
        body(call);
      } catch (const InvalidArgument&) {
        throw;
      } catch (const std::exception& error) {
        broken = std::current_exception();
        transport->abort(error.what());
        throw;
      }
    });
  }

  void reduce_tree(const Call& call, const TreeCall& tree, std::span<const ShardRange> ranges,
                   Algorithm algorithm) const {
    if (algorithm == Algorithm::central) return central_reduce(call, tree, ranges);
    if (algorithm == Algorithm::hierarchical)
      return hierarchical_reduce(call, tree, ranges, topology);
    tree_reduce(call, tree, ranges);
  }

  bool reduce_by_transport(const Call& call, const TreeCall& tree, Algorithm algorithm) const {
    if (algorithm != Algorithm::automatic && algorithm != Algorithm::tree) return false;
    return transport->tree_reduce(tree, call.deadline, call.operation);
  }

  // False, and nothing has moved, where the transport was asked for one of its own and has none.
  bool native_all_reduce(const CallOptions& options, std::span<std::byte> data, Element element,
                         Reduction reduction) {
    bool is_done = true;
    run("all_reduce", options, [&](const Call& call) {
      if (!data.empty())
        is_done =
            transport->native_all_reduce(data, element, reduction, call.deadline, call.operation);
    });
    return is_done;
  }

  void all_reduce(const Call& call, std::span<std::byte> data, Element element, Reduction reduction,
                  Algorithm algorithm) const {
    if (algorithm == Algorithm::ring) return ring_all_reduce(call, data, element, reduction);
    if (algorithm == Algorithm::multi_ring)
      return multi_ring_all_reduce(call, data, element, reduction);
    const std::byte* node = data.data();
    const TreeCall tree{element,    reduction, call.size(), {call.rank(), call.rank() + 1},
                        {&node, 1}, data,      one_each};
    if (reduce_by_transport(call, tree, algorithm)) return;
    reduce_tree(call, tree, one_each, algorithm);
  }
};

Communicator::Communicator(std::unique_ptr<Transport> transport, std::shared_ptr<Meter> meter)
    : impl_(std::make_unique<Impl>(std::move(transport))) {
  impl_->meter = std::move(meter);
}

Communicator::~Communicator() {
  if (!impl_->siblings) return;
  const std::lock_guard lock(impl_->siblings->mutex);
  impl_->siblings->open.erase(this);
}

int Communicator::rank() const { return impl_->transport->rank(); }
int Communicator::size() const { return impl_->transport->size(); }
const std::string& Communicator::host(int rank) const { return impl_->transport->host(rank); }
const Meter* Communicator::meter() const { return impl_->meter.get(); }
const std::vector<std::vector<int>>& Communicator::topology() const { return impl_->topology; }

void Communicator::send(std::span<const std::byte> bytes, int to, const CallOptions& options) {
  check_rank("send", to, size());
  if (to == rank()) throw InvalidArgument("send: rank {} is the sender itself", to);
  impl_->run("send", options, [&](const Call& call) {
    Exchange exchange;
    exchange.send(to, bytes);
    exchange.run(call);
  });
}

void Communicator::receive(std::span<std::byte> bytes, int from, const CallOptions& options) {
  check_rank("receive", from, size());
  if (from == rank()) throw InvalidArgument("receive: rank {} is the receiver itself", from);
  impl_->run("receive", options, [&](const Call& call) {
    Exchange exchange;
    exchange.receive(from, bytes);
    exchange.run(call);
  });
}

void Communicator::send_receive(std::span<const std::byte> sent, std::span<std::byte> received,
                                int peer, const CallOptions& options) {
  check_rank("send_receive", peer, size());
  if (peer == rank()) throw InvalidArgument("send_receive: rank {} is the caller itself", peer);
  impl_->run("send_receive", options, [&](const Call& call) {
    Exchange exchange;
    exchange.send(peer, sent);
    exchange.receive(peer, received);
    exchange.run(call);
  });
}

void Communicator::all_reduce(std::span<std::byte> data, Element element, Reduction reduction,
                              const CallOptions& options) {
  check_elements("all_reduce", data.size(), element);
  if (options.algorithm == Algorithm::native) {
    if (impl_->native_all_reduce(options, data, element, reduction)) return;
    throw Unsupported(
        "all_reduce: transport {} has no all-reduce of its own, expected algorithm tree, "
        "ring, multi_ring, hierarchical or central",
        impl_->transport->name());
  }
  impl_->run("all_reduce", options, [&](const Call& call) {
    if (!data.empty()) impl_->all_reduce(call, data, element, reduction, options.algorithm);
  });
}

void Communicator::reduce(std::span<std::byte> data, Element element, Reduction reduction, int root,
                          const CallOptions& options) {
  check_elements("reduce", data.size(), element);
  check_rank("reduce", root, size());
  impl_->run("reduce", options, [&](const Call& call) {
    const std::byte* node = data.data();
    const TreeCall tree{element,    reduction, call.size(), {call.rank(), call.rank() + 1},
                        {&node, 1}, data};
    tree_reduce(call, tree, impl_->one_each, {TreeGoal::Kind::one, root, nullptr});
  });
}

void Communicator::reduce_scatter(std::span<const std::byte> data, std::span<std::byte> part,
                                  Element element, Reduction reduction,
                                  const CallOptions& options) {
  check_elements("reduce_scatter", part.size(), element);
  check_bytes("reduce_scatter", "data", data.size(), part.size() * impl_->size());
  impl_->run("reduce_scatter", options, [&](const Call& call) {
    const std::byte* node = data.data();
    const std::span<std::byte> whole{const_cast<std::byte*>(data.data()),
                                     data.size()};  // not written
    const TreeCall tree{element,    reduction, call.size(), {call.rank(), call.rank() + 1},
                        {&node, 1}, whole};
    tree_reduce(call, tree, impl_->one_each, {TreeGoal::Kind::owner, 0, part.data()});
  });
}

void Communicator::all_gather(std::span<const std::byte> part, std::span<std::byte> all,
                              const CallOptions& options) {
  check_bytes("all_gather", "all", all.size(), part.size() * impl_->size());
  impl_->run("all_gather", options, [&](const Call& call) { comm::all_gather(call, part, all); });
}

void Communicator::broadcast(std::span<std::byte> data, int root, const CallOptions& options) {
  check_rank("broadcast", root, size());
  impl_->run("broadcast", options, [&](const Call& call) { comm::broadcast(call, data, root); });
}

void Communicator::gather(std::span<const std::byte> part, std::span<std::byte> all, int root,
                          const CallOptions& options) {
  check_rank("gather", root, size());
  if (rank() == root) check_bytes("gather", "all", all.size(), part.size() * impl_->size());
  impl_->run("gather", options, [&](const Call& call) { comm::gather(call, part, all, root); });
}

void Communicator::scatter(std::span<const std::byte> all, std::span<std::byte> part, int root,
                           const CallOptions& options) {
  check_rank("scatter", root, size());
  if (rank() == root) check_bytes("scatter", "all", all.size(), part.size() * impl_->size());
  impl_->run("scatter", options, [&](const Call& call) { comm::scatter(call, all, part, root); });
}

void Communicator::all_to_all(std::span<const std::byte> data, std::span<std::byte> result,
                              const CallOptions& options) {
  check_bytes("all_to_all", "result", result.size(), data.size());
  if (data.size() % impl_->size() != 0)
    throw InvalidArgument("all_to_all: data has {} bytes, expected equal parts for {} ranks",
                          data.size(), size());
  impl_->run("all_to_all", options,
             [&](const Call& call) { comm::all_to_all(call, data, result); });
}

void Communicator::barrier(const CallOptions& options) {
  impl_->run("barrier", options, [&](const Call& call) {
    if (!impl_->transport->barrier(call.deadline, call.operation)) comm::barrier(call);
  });
}

namespace {

// The range that the nodes make up; they must be the subtrees that lie in it.
ShardRange range_of(std::span<const TreeNode> nodes, std::int64_t shards) {
  if (nodes.empty()) return {0, 0};
  const ShardRange range{nodes.front().lo, nodes.back().hi};
  std::vector<ShardRange> given;
  for (const TreeNode& node : nodes) given.push_back({node.lo, node.hi});
  const bool inside = range.lo >= 0 && range.lo < range.hi && range.hi <= shards;
  if (!inside || given != subtrees_in(shards, range))
    throw InvalidArgument(
        "tree_sum: the {} nodes from {} to {} are not the subtrees of that range of {} shards",
        nodes.size(), range.lo, range.hi, shards);
  return range;
}

void check_known(std::span<const ShardRange> ranges, std::int64_t shards, ShardRange own, int rank,
                 int size) {
  if (ranges.size() != static_cast<std::size_t>(size))
    throw InvalidArgument("tree_sum: got the ranges of {} ranks, expected those of {}",
                          ranges.size(), size);
  check_ranges("tree_sum", shards, ranges);
  const ShardRange said = ranges[static_cast<std::size_t>(rank)];
  if (said != own && (said.lo < said.hi || own.lo < own.hi))
    throw InvalidArgument("tree_sum: the nodes are shards {} to {}, the range is {} to {}", own.lo,
                          own.hi, said.lo, said.hi);
}

}  // namespace

namespace {

// The parts of all ranks are floats of an array of so many bytes; returns the bytes of this rank's.
std::size_t check_parts(const char* operation, std::span<const ElementRanges> parts, int rank,
                        int size, std::size_t bytes) {
  if (parts.size() != static_cast<std::size_t>(size))
    throw InvalidArgument("{}: got the parts of {} ranks, expected those of {}", operation,
                          parts.size(), size);
  for (const ElementRanges& of_rank : parts)
    for (const ElementRange& part : of_rank)
      if (part.end < part.begin || part.end > bytes / sizeof(float))
        throw InvalidArgument("{}: a part is {} to {}, of {} floats", operation, part.begin,
                              part.end, bytes / sizeof(float));
  return count_elements(parts[static_cast<std::size_t>(rank)]) * sizeof(float);
}

}  // namespace

void Communicator::tree_scatter(std::span<const TreeNode> nodes, std::int64_t shards,
                                std::span<const ElementRanges> parts, std::span<std::byte> own,
                                const CallOptions& options, std::span<const ShardRange> ranges) {
  const ShardRange range = range_of(nodes, shards);
  check_known(ranges, shards, range, rank(), size());
  const std::size_t bytes = nodes.empty() ? ~std::size_t{0} : nodes[0].sum.size();
  std::vector<const std::byte*> sums;
  for (const TreeNode& node : nodes) {
    check_bytes("tree_scatter", "a node", node.sum.size(), bytes);
    sums.push_back(node.sum.data());
  }
  check_bytes("tree_scatter", "own", own.size(),
              check_parts("tree_scatter", parts, rank(), size(), bytes));
  impl_->run("tree_scatter", options, [&](const Call& call) {
    const TreeCall tree{Element::float32, Reduction::sum, shards, range, sums, {}, ranges};
    tree_reduce(call, tree, ranges, {TreeGoal::Kind::owner, 0, own.data(), parts});
  });
}

void Communicator::all_gather_parts(std::span<std::byte> data, std::span<const ElementRanges> parts,
                                    const CallOptions& options) {
  check_elements("all_gather_parts", data.size(), Element::float32);
  check_parts("all_gather_parts", parts, rank(), size(), data.size());
  impl_->run("all_gather_parts", options,
             [&](const Call& call) { comm::all_gather_parts(call, data, parts, sizeof(float)); });
}

void Communicator::tree_sum(std::span<const TreeNode> nodes, std::int64_t shards,
                            std::span<std::byte> result, const CallOptions& options,
                            std::span<const ShardRange> ranges) {
  check_elements("tree_sum", result.size(), Element::float32);
  if (shards < 1) throw InvalidArgument("tree_sum: got {} shards, expected at least 1", shards);
  const ShardRange range = range_of(nodes, shards);
  if (!ranges.empty()) check_known(ranges, shards, range, rank(), size());
  std::vector<const std::byte*> sums;
  for (const TreeNode& node : nodes) {
    check_bytes("tree_sum", "a node", node.sum.size(), result.size());
    sums.push_back(node.sum.data());
  }
  const Algorithm algorithm = options.algorithm;
  if (algorithm == Algorithm::ring || algorithm == Algorithm::multi_ring ||
      algorithm == Algorithm::native)
    throw Unsupported(
        "tree_sum: a ring or the transport's own all-reduce has an order of its own, expected "
        "algorithm tree, hierarchical or central");
  impl_->run("tree_sum", options, [&](const Call& call) {
    const TreeCall tree{Element::float32, Reduction::sum, shards, range, sums, result, ranges};
    if (impl_->reduce_by_transport(call, tree, algorithm)) return;
    if (!ranges.empty()) return impl_->reduce_tree(call, tree, ranges, algorithm);
    impl_->reduce_tree(call, tree, exchange_ranges(call, shards, range), algorithm);
  });
}

std::span<std::byte> Communicator::allocate(std::size_t bytes, const CallOptions& options) {
  if (bytes == 0) return {};
  std::span<std::byte> memory;
  impl_->run("allocate", options, [&](const Call& call) {
    memory = call.transport.allocate(bytes, call.deadline);
    if (memory.empty()) memory = impl_->memory.emplace_back(bytes);
  });
  return memory;
}

// Doubled when it is too small, since the smaller one stays.
std::span<std::byte> Communicator::common_memory(std::size_t bytes, const CallOptions& options) {
  std::span<std::byte>& common = impl_->common;
  if (bytes > common.size()) common = allocate(std::max(bytes, 2 * common.size()), options);
  return common.first(bytes);
}

WorkPtr Communicator::start(std::function<void(Communicator&)> call) {
  return std::make_unique<StartedCall>(
      impl_->queue.start([this, call = std::move(call)] { call(*this); }));
}

std::unique_ptr<Communicator> Communicator::split(const std::vector<int>& ranks,
                                                  const CallOptions& options) {
  std::vector<int> sorted = ranks;
  std::sort(sorted.begin(), sorted.end());
  if (ranks.empty() || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    throw InvalidArgument("split: expected at least one rank, and each once");
  check_rank("split", sorted.front(), size());
  check_rank("split", sorted.back(), size());
  if (!std::binary_search(sorted.begin(), sorted.end(), rank())) return nullptr;
  std::unique_ptr<Communicator> group;
  impl_->run("split", options, [&](const Call& call) {
    group = std::make_unique<Communicator>(call.transport.subgroup(ranks, call.deadline));
  });
  group->impl_->siblings = impl_->groups;
  const std::lock_guard lock(impl_->groups->mutex);
  impl_->groups->open.insert(group.get());
  if (impl_->groups->aborted) group->abort(*impl_->groups->aborted);
  return group;
}

void Communicator::abort(const std::string& reason) {
  impl_->transport->abort(reason);
  const std::lock_guard lock(impl_->groups->mutex);
  if (!impl_->groups->aborted) impl_->groups->aborted = reason;
  for (Communicator* group : impl_->groups->open) group->abort(reason);
}

}  // namespace lockstep::comm
