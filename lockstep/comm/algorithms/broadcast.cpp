// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/algorithms/movement.h"

// Short data goes down a binomial tree: whoever has it sends it on, so the number of ranks that
// have it doubles with each hop. Long data would cross the root's link many times that way; it is
// cut into a slice for each rank, scattered, and gathered by everybody from everybody (van de
// Geijn), so the root sends it once.
namespace lockstep::comm {
namespace {

constexpr std::size_t kLong = 64 * 1024;

void send_down(const Call& call, std::span<std::byte> data, int root) {
  const int size = call.size();
  const int place = (call.rank() - root + size) % size;
  Exchange exchange;
  int step = 1;
  while (step <= place) step *= 2;
  if (place > 0) {
    exchange.receive((place - step / 2 + root) % size, data);
    exchange.run(call);
  }
  for (; place + step < size; step *= 2) exchange.send((place + step + root) % size, data);
  exchange.run(call);
}

void scatter_and_gather(const Call& call, std::span<std::byte> data, int root) {
  const std::vector<ElementRange> slices = split_evenly(data.size(), call.size());
  const auto part = [&](int rank) {
    const ElementRange& slice = slices[static_cast<std::size_t>(rank)];
    return data.subspan(slice.begin, slice.count());
  };
  Exchange exchange;
  if (call.rank() == root)
    for (const int peer : others(call)) exchange.send(peer, part(peer));
  else
    exchange.receive(root, part(call.rank()));
  exchange.run(call);
  for (const int peer : others(call)) {
    if (peer != root) exchange.send(peer, part(call.rank()));
    if (call.rank() != root) exchange.receive(peer, part(peer));
  }
  exchange.run(call);
}

}  // namespace

void broadcast(const Call& call, std::span<std::byte> data, int root) {
  if (call.size() == 2 || data.size() < kLong)
    send_down(call, data, root);
  else
    scatter_and_gather(call, data, root);
}

}  // namespace lockstep::comm
