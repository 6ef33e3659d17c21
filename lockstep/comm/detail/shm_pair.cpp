// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/shm_pair.h"

#include <algorithm>
#include <cstring>

#include "lockstep/comm/algorithms/call.h"
#include "lockstep/comm/detail/shm_signature.h"
#include "lockstep/comm/fold.h"

// Two ranks take most of their time for cache lines to come from the other core, and a core has
// only so many of them under way. So a rank does in one step, block by block, three things that
// wait for different lines: it takes the sum of chunk t - 2 * kLag from its stage, puts its data of
// chunk t into the same place, and adds its slice of chunk t - kLag, which lies on the other's
// stage. The other leaves a line where it was read from, so that it travels twice in all. One
// counter says how many steps a rank has done; the other follows kLag steps behind, which leaves
// the lines time to move out of the first-level cache, from where they are slow to fetch.
//
// Data that does not fit into the second-level cache is taken from the other end in every second
// call: what was reduced last is still in the cache then.
namespace lockstep::comm {
namespace {

constexpr std::size_t kChunk = 128 * 1024;  // bytes
constexpr std::size_t kBlock = 1024;        // bytes; the core looks about as far ahead
constexpr std::size_t kPlain = 2048;        // bytes that the library copies in a plain loop
constexpr std::size_t kTurning = 1536 * 1024;
constexpr std::size_t kLag = 2;  // steps
static_assert(kStages == 2 * kLag && kChunk <= kStageBytes);

class ShmPair {
 public:
  ShmPair(const ShmCall& call, const TreeCall& tree, ShmProgress& progress)
      : call_(call),
        tree_(tree),
        progress_(progress),
        peer_(1 - call.rank),
        size_(element_size(tree.element)),
        count_(tree.result.size() / size_),
        width_(kChunk / size_),
        chunks_((count_ + width_ - 1) / width_),
        turned_(tree.result.size() > kTurning && progress.calls % 2 == 1) {}

  void run(const ShmSignature& signature, const std::function<void()>& met) {
    await(&ShmRank::finished, progress_.chunk);
    for (std::size_t step = 0; step < chunks_ + 2 * kLag; ++step) {
      if (step >= kLag) await(&ShmRank::staged, number(step - kLag));
      if (step == kLag) met();
      work(step);
      if (step == 0) write_signature(call_, number(0), signature);
      if (step + 1 < chunks_ + kLag)
        publish(number(step));
      else if (step + 1 == chunks_ + kLag)
        finish();
    }
    progress_.chunk += chunks_ + 2 * kLag;
  }

 private:
  std::uint64_t number(std::size_t step) const { return progress_.chunk + 1 + step; }

  void await(std::atomic<std::uint64_t> ShmRank::*counter, std::uint64_t value) {
    const std::atomic<std::uint64_t>& seen = call_.segment.rank(peer_).*counter;
    const auto blocker = [&] { return seen.load() < value ? peer_ : -1; };
    call_.waiter.wait(blocker, call_.deadline, call_.operation);
  }

  void publish(std::uint64_t value) {
    call_.waiter.publish_to(peer_, call_.segment.rank(call_.rank).staged, value);
  }

  // All is added; nobody waits for what is left, which is to collect the sums.
  void finish() {
    const std::uint64_t last = number(chunks_ + 2 * kLag - 1);
    ShmRank& own = call_.segment.rank(call_.rank);
    own.reduced.store(last, std::memory_order_release);
    own.finished.store(last, std::memory_order_release);
    publish(last);
  }

  // A rank's slice of the chunk that is staged in a step; empty where there is none.
  ElementRange slice(std::size_t step, int rank) const {
    if (step >= chunks_) return {0, 0};
    const ElementRange chunk =
        subrange({0, count_}, (turned_ ? chunks_ - 1 - step : step) * width_, width_);
    const std::size_t middle = chunk.begin + chunk.count() / 2 / 64 * 64;
    return rank == 0 ? ElementRange{chunk.begin, middle} : ElementRange{middle, chunk.end};
  }

  // Steps before the first are beyond the last.
  void work(std::size_t step) {
    const ElementRange in = slice(step, peer_), own = slice(step - kLag, call_.rank),
                       out = slice(step - 2 * kLag, peer_);
    std::byte* const stage = call_.segment.stage(call_.rank, number(step));
    std::byte* const other = call_.segment.stage(peer_, number(step - kLag));
    const std::size_t most = std::max({in.count(), own.count(), out.count()});
    const bool alone = most == in.count() + own.count() + out.count();
    const std::size_t block = alone ? most : kBlock / size_;
    for (std::size_t i = 0; i < most; i += block) {
      const auto here = [&](const ElementRange& slice) {
        return i < slice.count() ? std::min(block, slice.count() - i) : 0;
      };
      copy(result(out.begin + i), stage + i * size_, here(out));
      copy(stage + i * size_, node(in.begin + i), here(in));
      add(own.begin + i, other + i * size_, here(own));
    }
  }

  const std::byte* node(std::size_t i) const { return tree_.nodes[0] + i * size_; }
  std::byte* result(std::size_t i) const { return tree_.result.data() + i * size_; }

  // What the library does with more at once is slower on another core's lines.
  void copy(std::byte* to, const std::byte* from, std::size_t count) const {
    for (std::size_t i = 0; i < count * size_; i += kPlain)
      std::memcpy(to + i, from + i, std::min(kPlain, count * size_ - i));
  }

  void add(std::size_t begin, std::byte* other, std::size_t count) const {
    if (count == 0) return;
    const std::byte* const own = node(begin);
    const bool is_first = call_.rank == 0;
    combine(tree_.element, tree_.reduction, is_first ? own : other, is_first ? other : own,
            result(begin), count, other);
  }

  const ShmCall& call_;
  const TreeCall& tree_;
  ShmProgress& progress_;
  int peer_;
  std::size_t size_;
  std::size_t count_;
  std::size_t width_;   // elements of a chunk
  std::size_t chunks_;  // how many
  bool turned_;         // from the last to the first
};

}  // namespace

void shm_pair_reduce(const ShmCall& call, const TreeCall& tree, ShmProgress& progress,
                     const ShmSignature& signature, const std::function<void()>& met) {
  ShmPair(call, tree, progress).run(signature, met);
}

}  // namespace lockstep::comm
