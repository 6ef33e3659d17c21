// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/detail/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace lockstep::cluster::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kClockRounds = 10, kPings = 200, kLeastRounds = 3;
constexpr std::size_t kLargest = 16 << 20;
// Short enough for many pairs.
constexpr double kAimedSeconds = 0.05;

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Of several answers the fastest is the one whose moment is known best (Cristian's algorithm).
double ask_clock(comm::Communicator& group, int rank) {
  double best = 1e9, offset = 0;
  for (int round = 0; round < kClockRounds; ++round) {
    double theirs = 0;
    const double asked = wall_clock();
    const auto begin = Clock::now();
    group.send(bytes_of(theirs), rank);
    group.receive(bytes_of(theirs), rank);
    const double took = seconds_since(begin);
    if (took >= best) continue;
    best = took;
    offset = theirs - (asked + took / 2);
  }
  return offset;
}

void tell_clock(comm::Communicator& group) {
  for (int round = 0; round < kClockRounds; ++round) {
    double now = 0;
    group.receive(bytes_of(now), 0);
    now = wall_clock();
    group.send(bytes_of(now), 0);
  }
}

// One way, of the fastest.
double ping(comm::Communicator& group, int peer, bool first) {
  double best = 1e9;
  std::uint64_t word = 0;
  for (int i = 0; i < kPings; ++i) {
    const auto begin = Clock::now();
    if (first) group.send(bytes_of(word), peer);
    group.receive(bytes_of(word), peer);
    if (!first) group.send(bytes_of(word), peer);
    best = std::min(best, seconds_since(begin) / 2);
  }
  return best;
}

// There and an answer of one word, larger and larger, the fastest counts: a busy machine disturbs
// some rounds and not all.
double stream(comm::Communicator& group, int peer, bool first) {
  std::vector<std::byte> data(kLargest);
  std::uint64_t enough = 0;
  double rate = 0;
  const auto start = Clock::now();
  for (int round = 0; enough == 0; ++round) {
    const std::size_t size = std::min(std::size_t{1 << 16} << (2 * std::min(round, 4)), kLargest);
    const std::span<std::byte> part = std::span(data).first(size);
    const auto begin = Clock::now();
    first ? group.send(part, peer) : group.receive(part, peer);
    first ? group.receive(bytes_of(enough), peer) : group.send(bytes_of(enough), peer);
    rate = std::max(rate, static_cast<double>(size) / seconds_since(begin));
    enough = round + 1 >= kLeastRounds && seconds_since(start) > kAimedSeconds ? 1 : 0;
    first ? group.send(bytes_of(enough), peer) : group.receive(bytes_of(enough), peer);
  }
  return rate;
}

}  // namespace

std::vector<double> measure_clocks(comm::Communicator& group) {
  std::vector<double> offsets(static_cast<std::size_t>(group.size()));
  for (int rank = 1; rank < group.size(); ++rank) {
    if (group.rank() == 0) offsets[static_cast<std::size_t>(rank)] = ask_clock(group, rank);
    if (group.rank() == rank) tell_clock(group);
  }
  return offsets;
}

std::vector<Link> measure_links(comm::Communicator& group) {
  std::vector<Link> links;
  for (int from = 0; from < group.size(); ++from)
    for (int to = from + 1; to < group.size(); ++to) {
      Link link{from, to};
      if (group.rank() == from || group.rank() == to) {
        const bool first = group.rank() == from;
        link.latency = ping(group, first ? to : from, first);
        link.bandwidth = stream(group, first ? to : from, first);
      }
      double numbers[2] = {link.latency, link.bandwidth};
      group.broadcast(std::as_writable_bytes(std::span(numbers)), from);
      links.push_back({from, to, numbers[0], numbers[1]});
    }
  return links;
}

}  // namespace lockstep::cluster::detail
