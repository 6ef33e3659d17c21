// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "lockstep/comm/algorithms/movement.h"

// Everything that gives each rank its own part: straight from the rank that has it to the rank that
// gets it, all at once. Each byte crosses the wire once; begin with the neighbour, so that not all
// send to the same rank first.
namespace lockstep::comm {
namespace {

template <class Bytes>
Bytes part_of(Bytes all, std::size_t size, int rank) {
  return all.subspan(size * static_cast<std::size_t>(rank), size);
}

void copy(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty()) std::memmove(to.data(), from.data(), from.size());
}

}  // namespace

void all_gather(const Call& call, std::span<const std::byte> part, std::span<std::byte> all) {
  Exchange exchange;
  for (const int peer : others(call)) {
    exchange.send(peer, part);
    exchange.receive(peer, part_of(all, part.size(), peer));
  }
  exchange.run(call);
  copy(part, part_of(all, part.size(), call.rank()));
}

void all_gather_parts(const Call& call, std::span<std::byte> data,
                      std::span<const ElementRanges> parts, std::size_t size) {
  const auto of = [&](int rank) -> const ElementRanges& {
    return parts[static_cast<std::size_t>(rank)];
  };
  const auto bytes = [&](const ElementRange& part) {
    return data.subspan(part.begin * size, part.count() * size);
  };
  Exchange exchange;
  for (const int peer : others(call)) {
    for (const ElementRange& part : of(call.rank())) exchange.send(peer, bytes(part));
    for (const ElementRange& part : of(peer)) exchange.receive(peer, bytes(part));
  }
  exchange.run(call);
}

void gather(const Call& call, std::span<const std::byte> part, std::span<std::byte> all, int root) {
  Exchange exchange;
  if (call.rank() != root) exchange.send(root, part);
  if (call.rank() == root) {
    for (const int peer : others(call)) exchange.receive(peer, part_of(all, part.size(), peer));
    copy(part, part_of(all, part.size(), root));
  }
  exchange.run(call);
}

void scatter(const Call& call, std::span<const std::byte> all, std::span<std::byte> part,
             int root) {
  Exchange exchange;
  if (call.rank() != root) exchange.receive(root, part);
  if (call.rank() == root) {
    for (const int peer : others(call)) exchange.send(peer, part_of(all, part.size(), peer));
    copy(part_of(all, part.size(), root), part);
  }
  exchange.run(call);
}

void all_to_all(const Call& call, std::span<const std::byte> data, std::span<std::byte> result) {
  const std::size_t size = data.size() / static_cast<std::size_t>(call.size());
  Exchange exchange;
  for (const int peer : others(call)) {
    exchange.send(peer, part_of(data, size, peer));
    exchange.receive(peer, part_of(result, size, peer));
  }
  copy(part_of(data, size, call.rank()), part_of(result, size, call.rank()));
  exchange.run(call);
}

}  // namespace lockstep::comm
