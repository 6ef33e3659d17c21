// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/detail/measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <utility>

#include "lockstep/base/unix_time.h"
#include "lockstep/cluster/doctor/detail/throughput_meter.h"

namespace lockstep::cluster::detail {
namespace {

using Clock = std::chrono::steady_clock;

// Far hosts have fewer words: each takes its time.
constexpr int kLeastWords = 3, kClockWords = 10, kPings = 200;
constexpr double kWordSeconds = 0.02;

constexpr std::size_t kAhead = 8;  // pieces that are on their way
constexpr std::size_t kLeastPiece = 4 << 10, kPieceInside = 256 << 10, kMostPiece = 4 << 20;
// What is on its way lasts so long: a process that has to wait for a core leaves its link busy.
constexpr double kSecondsAhead = 0.05;

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Whether another word goes after `done` ones: a double, since answers are.
double wants_more(int done, int most, Clock::time_point begin) {
  return done < kLeastWords || (done < most && seconds_since(begin) < kWordSeconds) ? 1 : 0;
}

// Of several answers the fastest is the one whose moment is known best (Cristian's algorithm).
double ask_clock(comm::Communicator& group, int rank) {
  double best = 1e9, offset = 0, more = 1;
  const auto start = Clock::now();
  for (int done = 1; more != 0; ++done) {
    double theirs = 0;
    more = wants_more(done, kClockWords, start);
    const double asked = unix_seconds();
    const auto begin = Clock::now();
    group.send(bytes_of(more), rank);
    group.receive(bytes_of(theirs), rank);
    const double took = seconds_since(begin);
    if (took >= best) continue;
    best = took;
    offset = theirs - (asked + took / 2);
  }
  return offset;
}

void tell_clock(comm::Communicator& group) {
  for (double more = 1; more != 0;) {
    group.receive(bytes_of(more), 0);
    double now = unix_seconds();
    group.send(bytes_of(now), 0);
  }
}

// One way, of the fastest; both are told.
double ping(comm::Communicator& group, int peer) {
  double best = 1e9, more = 1;
  const auto start = Clock::now();
  for (int done = 1; more != 0; ++done) {
    more = wants_more(done, kPings, start);
    const auto begin = Clock::now();
    group.send(bytes_of(more), peer);
    group.receive(bytes_of(more), peer);
    best = std::min(best, seconds_since(begin) / 2);
  }
  group.send(bytes_of(best), peer);
  return best;
}

double answer_pings(comm::Communicator& group, int peer) {
  for (double more = 1; more != 0;) {
    group.receive(bytes_of(more), peer);
    group.send(bytes_of(more), peer);
  }
  double latency = 0;
  group.receive(bytes_of(latency), peer);
  return latency;
}

// A stream is drawn by its receiver, who asks for pieces before it needs them and says how long
// they are. So it knows what is on its way: enough to keep the link busy, and not so much that a
// slow link is busy with it for long. Only what has arrived counts, not what a buffer has taken.
class Receiver {
 public:
  Receiver(comm::Communicator& group, int peer, double latency)
      : group_(group),
        peer_(peer),
        is_inside_(group.host(peer) == group.host(group.rank())),
        seconds_ahead_(kSecondsAhead + 4 * latency),
        data_(kMostPiece) {
    std::array<std::uint64_t, kAhead> first;
    first.fill(is_inside_ ? kPieceInside : kLeastPiece);
    asked_.assign(first.begin(), first.end());
    group.send(std::as_bytes(std::span(first)), peer);
  }

  // Bytes a second.
  double run(double seconds) {
    while (since() + kSecondsAhead < seconds) take(next_piece());
    take(0);
    while (!asked_.empty()) take_last();
    return is_inside_ ? meter_.highest_rate() : meter_.sustained_rate();
  }

 private:
  double since() const { return seconds_since(begin_); }
  std::span<std::byte> first_asked() {
    const std::size_t size = asked_.front();
    asked_.pop_front();
    return std::span(data_).first(size);
  }

  // Receives a piece and asks for another one; 0 ends the stream.
  void take(std::uint64_t next) {
    const std::span<std::byte> piece = first_asked();
    group_.send_receive(bytes_of(next), piece, peer_);
    meter_.add(since(), piece.size());
    if (next > 0) asked_.push_back(next);
  }
  void take_last() {
    const std::span<std::byte> piece = first_asked();
    group_.receive(piece, peer_);
    meter_.add(since(), piece.size());
  }

  // Growing slowly: the first pieces may come much faster than a shaped link lets others pass.
  std::uint64_t next_piece() const {
    const double fitting =
        meter_.latest_rate(kAhead) * seconds_ahead_ / static_cast<double>(kAhead);
    const std::uint64_t longest = std::min(asked_.back() + asked_.back() / 8, kMostPiece);
    return std::clamp(static_cast<std::uint64_t>(std::min(fitting, 1e9)),
                      is_inside_ ? kPieceInside : kLeastPiece, longest);
  }

  comm::Communicator& group_;
  int peer_;
  bool is_inside_;  // the same host: memory has no bursts, and needs a core for each side
  double seconds_ahead_;
  std::vector<std::byte> data_;
  std::deque<std::uint64_t> asked_;  // how long the pieces are that are on their way
  ThroughputMeter meter_;
  Clock::time_point begin_ = Clock::now();
};

void send_stream(comm::Communicator& group, int peer) {
  const std::vector<std::byte> data(kMostPiece);
  std::array<std::uint64_t, kAhead> first;
  group.receive(std::as_writable_bytes(std::span(first)), peer);
  std::deque<std::uint64_t> asked(first.begin(), first.end());
  const auto next_piece = [&] {
    const std::uint64_t size = asked.front();
    asked.pop_front();
    if (size > kMostPiece) throw Corrupt("doctor: rank {} asks for {} bytes", peer, size);
    return std::span(data).first(size);
  };
  for (std::uint64_t next = 1; next != 0;) {
    group.send_receive(next_piece(), bytes_of(next), peer);
    if (next != 0) asked.push_back(next);
  }
  while (!asked.empty()) group.send(next_piece(), peer);
}

// What one rank knows of a round.
struct Outcome {
  double latency = 0;
  double rate = 0;  // of what it has received
};

// Whom this rank meets; -1: nobody.
int peer_of(const MeasureRound& round, int rank) {
  for (const RankPair& pair : round.pairs)
    if (pair.first == rank || pair.second == rank)
      return pair.first == rank ? pair.second : pair.first;
  return -1;
}

// One way after the other: answers to a stream would have to wait behind the other one.
Outcome meet_peer(comm::Communicator& group, const MeasureRound& round, int peer) {
  const bool first = group.rank() < peer;
  Outcome outcome{first ? ping(group, peer) : answer_pings(group, peer)};
  if (round.stream_seconds <= 0) return outcome;
  if (first) send_stream(group, peer);
  outcome.rate = Receiver(group, peer, outcome.latency).run(round.stream_seconds);
  if (!first) send_stream(group, peer);
  return outcome;
}

// As rank 0 sees it.
bool is_late(comm::Communicator& group, Clock::time_point deadline) {
  std::uint64_t late = Clock::now() >= deadline ? 1 : 0;
  group.broadcast(bytes_of(late), 0);
  return late != 0;
}

// From the deadline on without streams: they may have taken longer than planned, when links are
// very slow or the hosts have no core to spare.
std::vector<Link> measure_rounds(comm::Communicator& group, std::vector<MeasureRound> rounds,
                                 Clock::time_point deadline) {
  if (rounds.empty()) return {};
  std::vector<Outcome> own(rounds.size());
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    group.barrier();
    if (is_late(group, deadline)) rounds[i].stream_seconds = 0;
    const int peer = peer_of(rounds[i], group.rank());
    if (peer >= 0) own[i] = meet_peer(group, rounds[i], peer);
  }
  std::vector<Outcome> all(own.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  std::vector<Link> links;
  for (std::size_t i = 0; i < rounds.size(); ++i)
    for (const auto& [first, second] : rounds[i].pairs) {
      const Outcome &there = all[static_cast<std::size_t>(second) * rounds.size() + i],
                    &back = all[static_cast<std::size_t>(first) * rounds.size() + i];
      links.push_back({first, second, back.latency, there.rate, back.rate});
    }
  return links;
}

// What was disturbed was slower than it need be.
void take_better(std::vector<Link>& links, const std::vector<Link>& again) {
  for (const Link& other : again)
    for (Link& link : links)
      if (link.from == other.from && link.to == other.to)
        link = {link.from, link.to, std::min(link.latency, other.latency),
                std::max(link.bandwidth, other.bandwidth), std::max(link.back, other.back)};
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

std::vector<Link> measure_links(comm::Communicator& group, const MeasurePlan& plan) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(plan.most_seconds));
  std::vector<Link> links = measure_rounds(group, plan.rounds, deadline);
  const std::vector<MeasureRound> again = plan_again(plan, links, group.topology());
  take_better(links, measure_rounds(group, again, deadline));
  std::sort(links.begin(), links.end(), [](const Link& a, const Link& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  return links;
}

}  // namespace lockstep::cluster::detail
