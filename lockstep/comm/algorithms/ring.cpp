// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/algorithms/ring.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "lockstep/comm/fold.h"

// The bandwidth-optimal all-reduce of Patarasuk and Yuan (2009). The ranks stand in a ring and the
// data is cut into as many slices. For n - 1 steps each rank sends a slice to the next rank and
// adds the one that comes from the rank before, so that each ends with one slice complete; in n - 1
// more steps the complete slices go round. A slice is added up in the order in which it passed the
// ranks, which is why the bits hold for a fixed number of ranks only. Long data goes in blocks that
// stay in the cache between arriving and being added; some blocks go round at once, each a step
// behind the other, so that the links are busy while one is added. What arrives in a block's last
// step goes no further and nobody waits for it: the next block sets out at once.
namespace lockstep::comm {
namespace {

constexpr std::size_t kSliceBytes = 128 * 1024;
constexpr std::size_t kBlocks = 4;                                      // under way at once
constexpr std::size_t kLast = std::numeric_limits<std::size_t>::max();  // turn

class Ring {
 public:
  Ring(const Call& call, int step) : size_(call.size()) {
    int at = 0;
    for (int place = 0; place < size_; ++place, at = (at + step + size_) % size_) {
      if (at == call.rank()) place_ = place;
      order_.push_back(at);
    }
  }
  int next() const { return rank_at(place_ + 1); }
  int before() const { return rank_at(place_ - 1); }
  // Which slice this rank sends in a step; the one before it is what it receives.
  std::size_t slice(int step) const { return wrap(place_ - step); }

 private:
  std::size_t wrap(int place) const {
    return static_cast<std::size_t>(((place % size_) + size_) % size_);
  }
  int rank_at(int place) const { return order_[wrap(place)]; }

  int size_;
  int place_ = 0;
  std::vector<int> order_;
};

struct RingPart {
  Ring ring;
  std::span<std::byte> data;
  std::vector<ElementRange> slices;
  std::vector<std::byte> received;

  std::span<std::byte> slice(int step, std::size_t size) const {
    const ElementRange& part = slices[ring.slice(step)];
    return data.subspan(part.begin * size, part.count() * size);
  }
};

// One block on its way round all rings.
class Block {
 public:
  Block(const Call& call, std::span<const int> steps, Element element, Reduction reduction)
      : ranks_(call.size()),
        size_(element_size(element)),
        element_(element),
        reduction_(reduction) {
    for (const int step : steps) parts_.push_back({Ring(call, step), {}, {}, {}});
  }

  void begin(std::span<std::byte> data) {
    const std::vector<ElementRange> shares =
        split_evenly(data.size() / size_, static_cast<int>(parts_.size()));
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].data = data.subspan(shares[i].begin * size_, shares[i].count() * size_);
      parts_[i].slices = split_evenly(shares[i].count(), ranks_);
    }
    step_ = 0;
  }
  // Nothing that this block has still to receive goes any further.
  bool is_last() const { return step_ + 1 == 2 * (ranks_ - 1); }

  void post(Exchange& exchange, std::size_t turn) {
    for (RingPart& part : parts_) {
      exchange.send(part.ring.next(), part.slice(place(), size_));
      const std::span<std::byte> own = part.slice(place() + 1, size_);
      if (adds()) part.received.resize(own.size());
      exchange.receive(part.ring.before(), adds() ? std::span(part.received) : own, turn);
    }
  }

  // What was posted has come.
  void settle() {
    for (RingPart& part : parts_) {
      const std::span<std::byte> own = part.slice(place() + 1, size_);
      if (adds())
        combine(element_, reduction_, part.received.data(), own.data(), own.data(),
                own.size() / size_);
    }
    ++step_;
  }

 private:
  bool adds() const { return step_ + 1 < ranks_; }
  // The first n - 1 steps add; the others begin one place earlier, with what is complete.
  int place() const { return adds() ? step_ : step_ - ranks_; }

  int ranks_;
  std::size_t size_;
  Element element_;
  Reduction reduction_;
  int step_ = 0;
  std::vector<RingPart> parts_;
};

}  // namespace

void reduce_on_rings(const Call& call, std::span<const int> steps, std::span<std::byte> data,
                     Element element, Reduction reduction) {
  if (call.size() == 1 || data.empty()) return;
  const std::size_t width = kSliceBytes * static_cast<std::size_t>(call.size()) * steps.size();
  std::vector<Block> blocks(std::min(kBlocks, (data.size() + width - 1) / width),
                            Block(call, steps, element, reduction));
  Exchange exchange;
  std::deque<Block*> under_way;
  std::size_t next = 0, posted = 0, settled = 0;
  const auto begin = [&](Block& block) {
    if (next == data.size()) return;
    const std::size_t count = std::min(width, data.size() - next);
    block.begin(data.subspan(next, count));
    next += count;
    block.post(exchange, posted++);
    under_way.push_back(&block);
  };
  for (Block& block : blocks) begin(block);
  while (!under_way.empty()) {
    Block& block = *under_way.front();
    under_way.pop_front();
    exchange.run_turn(call, settled++);
    block.settle();
    block.post(exchange, block.is_last() ? kLast : posted++);
    block.is_last() ? begin(block) : under_way.push_back(&block);
  }
  exchange.run(call);
}

void ring_all_reduce(const Call& call, std::span<std::byte> data, Element element,
                     Reduction reduction) {
  const int forward[] = {1};
  reduce_on_rings(call, forward, data, element, reduction);
}

}  // namespace lockstep::comm
