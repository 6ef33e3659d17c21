// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/algorithms/ring.h"

#include <algorithm>

#include "lockstep/comm/fold.h"

// The bandwidth-optimal all-reduce of Patarasuk and Yuan (2009). The ranks stand in a ring and the
// data is cut into as many slices. For n - 1 steps each rank sends a slice to the next rank and
// adds the one that comes from the rank before, so that each ends with one slice complete; in n - 1
// more steps the complete slices go round. A slice is added up in the order in which it passed the
// ranks, which is why the bits hold for a fixed number of ranks only. Long data goes in blocks that
// stay in the cache between arriving and being added.
namespace lockstep::comm {
namespace {

constexpr std::size_t kSliceBytes = 256 * 1024;

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
  std::vector<Slice> slices;
  std::vector<std::byte> received;

  std::span<std::byte> slice(int step, std::size_t size) const {
    const Slice& part = slices[ring.slice(step)];
    return data.subspan(part.begin * size, part.count() * size);
  }
};

void run_block(const Call& call, std::span<RingPart> parts, Element element, Reduction reduction) {
  const std::size_t size = element_size(element);
  Exchange exchange;
  for (int step = 0; step + 1 < call.size(); ++step) {
    for (RingPart& part : parts) {
      part.received.resize(part.slice(step + 1, size).size());
      exchange.send(part.ring.next(), part.slice(step, size));
      exchange.receive(part.ring.before(), part.received);
    }
    exchange.run(call);
    for (RingPart& part : parts) {
      const std::span<std::byte> own = part.slice(step + 1, size);
      combine(element, reduction, part.received.data(), own.data(), own.data(), own.size() / size);
    }
  }
  for (int step = -1; step + 2 < call.size(); ++step) {
    for (RingPart& part : parts) {
      exchange.send(part.ring.next(), part.slice(step, size));
      exchange.receive(part.ring.before(), part.slice(step + 1, size));
    }
    exchange.run(call);
  }
}

}  // namespace

void reduce_on_rings(const Call& call, std::span<const int> steps, std::span<std::byte> data,
                     Element element, Reduction reduction) {
  if (call.size() == 1) return;
  const std::size_t size = element_size(element);
  const std::size_t block =
      kSliceBytes / size * static_cast<std::size_t>(call.size()) * steps.size();
  std::vector<RingPart> parts;
  for (const int step : steps) parts.push_back({Ring(call, step), {}, {}, {}});
  for (std::size_t begin = 0; begin < data.size() / size; begin += block) {
    const Slice whole = piece({0, data.size() / size}, begin, block);
    const std::vector<Slice> shares = cut(whole.count(), static_cast<int>(steps.size()));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i].data =
          data.subspan((whole.begin + shares[i].begin) * size, shares[i].count() * size);
      parts[i].slices = cut(shares[i].count(), call.size());
    }
    run_block(call, parts, element, reduction);
  }
}

void ring_all_reduce(const Call& call, std::span<std::byte> data, Element element,
                     Reduction reduction) {
  const int forward[] = {1};
  reduce_on_rings(call, forward, data, element, reduction);
}

}  // namespace lockstep::comm
