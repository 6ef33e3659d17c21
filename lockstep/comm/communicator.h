// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/comm/element_range.h"
#include "lockstep/comm/meter.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// tree: canonical order, the same bits for any number of ranks; ring, multi_ring: for a fixed
// number only; hierarchical: inside each host, then between hosts; central: all to one and back;
// native: the transport's own, where it has one (MPI).
enum class Algorithm { automatic, tree, ring, multi_ring, hierarchical, central, native };

struct CallOptions {
  std::chrono::milliseconds timeout{60'000};
  Algorithm algorithm = Algorithm::automatic;
};

// One rank's contribution to a sum over shards in canonical tree order: the sums of the subtrees
// [lo, hi) that lie in its range of shards and in no larger one that does.
struct TreeNode {
  std::int64_t lo, hi;
  std::span<const std::byte> sum;
};

// A call that goes on while its caller does something else. Destroying it waits.
class Work {
 public:
  virtual ~Work() = default;
  virtual bool is_done() = 0;
  // Rethrows what the call threw.
  virtual void wait() = 0;
};
using WorkPtr = std::unique_ptr<Work>;

// Collectives over the ranks of a group: bytes, never tensors. Every rank makes the same calls in
// the same order; calls that are started run one after the other. Every call has a deadline; an
// error names rank, host and operation, and breaks the communicator for good.
class Communicator {
 public:
  // `meter`: of what the transport measures; null: nothing.
  explicit Communicator(std::unique_ptr<Transport> transport,
                        std::shared_ptr<Meter> meter = nullptr);
  ~Communicator();

  int rank() const;
  int size() const;
  const std::string& host(int rank) const;
  // Null where nothing is measured.
  const Meter* meter() const;
  // Ranks of each host, in order.
  const std::vector<std::vector<int>>& topology() const;

  void send(std::span<const std::byte> bytes, int to, const CallOptions& options = {});
  void receive(std::span<std::byte> bytes, int from, const CallOptions& options = {});
  // Both with one peer, which does the same: neither waits for the other's end first.
  void send_receive(std::span<const std::byte> sent, std::span<std::byte> received, int peer,
                    const CallOptions& options = {});

  void all_reduce(std::span<std::byte> data, Element element, Reduction reduction,
                  const CallOptions& options = {});
  void reduce(std::span<std::byte> data, Element element, Reduction reduction, int root,
              const CallOptions& options = {});
  // `data` is size() equal parts; the result is this rank's.
  void reduce_scatter(std::span<const std::byte> data, std::span<std::byte> part, Element element,
                      Reduction reduction, const CallOptions& options = {});
  void all_gather(std::span<const std::byte> part, std::span<std::byte> all,
                  const CallOptions& options = {});
  void broadcast(std::span<std::byte> data, int root, const CallOptions& options = {});
  void gather(std::span<const std::byte> part, std::span<std::byte> all, int root,
              const CallOptions& options = {});
  void scatter(std::span<const std::byte> all, std::span<std::byte> part, int root,
               const CallOptions& options = {});
  void all_to_all(std::span<const std::byte> data, std::span<std::byte> result,
                  const CallOptions& options = {});
  void barrier(const CallOptions& options = {});

  // The canonical tree sum (float32) over `shards` shards of which each rank has a contiguous,
  // maybe uneven, maybe empty range; the result is the same on every rank and for any ranges.
  // `ranges`, of all ranks, where every rank knows them: else they ask each other. All ranks give
  // the same ranges, or none does. Shared memory notices and throws Aborted where they do not;
  // other transports do not look, and the sum is wrong or the call ends by its deadline. So it is
  // with lengths that differ, here and in all_reduce.
  void tree_sum(std::span<const TreeNode> nodes, std::int64_t shards, std::span<std::byte> result,
                const CallOptions& options = {}, std::span<const ShardRange> ranges = {});

  // The same sums, each of them to one rank alone: rank r gets the floats parts[r], which `own` has
  // one after the other. No float is in two parts. All ranks give the same parts and ranges.
  void tree_scatter(std::span<const TreeNode> nodes, std::int64_t shards,
                    std::span<const ElementRanges> parts, std::span<std::byte> own,
                    const CallOptions& options, std::span<const ShardRange> ranges);
  // The way back: of floats, rank r has those of parts[r] in their places, and gets the others'.
  void all_gather_parts(std::span<std::byte> data, std::span<const ElementRanges> parts,
                        const CallOptions& options = {});

  // Memory of zeros for data that is reduced often; it lives as long as this communicator. Where
  // ranks see each other's memory, data of 16 KB and more that lies in it on every rank is reduced
  // in place, without copies. All ranks call it, with the same number.
  std::span<std::byte> allocate(std::size_t bytes, const CallOptions& options = {});
  // The same, of one memory for all who ask: what lies there stays until somebody else uses it.
  std::span<std::byte> common_memory(std::size_t bytes, const CallOptions& options = {});

  // Runs `call` after those started before it, in a thread of the communicator's own. Blocking
  // calls wait for started ones.
  WorkPtr start(std::function<void(Communicator&)> call);

  // A communicator for some of the ranks, in the order given; the ranks that are not in it get
  // null. All ranks call it. It has channels of its own: its calls and those of this one, or of
  // another group of the same ranks, run at the same time and do not wait for each other. What
  // breaks it does not break this one, but abort() of this one aborts it too. Its errors call ranks
  // as this one does.
  std::unique_ptr<Communicator> split(const std::vector<int>& ranks,
                                      const CallOptions& options = {});

  void abort(const std::string& reason);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::comm
