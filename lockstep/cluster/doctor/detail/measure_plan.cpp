// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/detail/measure_plan.h"

#include <algorithm>
#include <set>

namespace lockstep::cluster::detail {
namespace {

// Seconds. A round takes the time of its words, and of all ranks meeting before it.
constexpr double kRoundCost = 0.03;
constexpr double kMostSeconds = 12, kLateSeconds = 6, kFirstSeconds = 2, kSecondsOfRound = 0.6;
constexpr double kLeastStream = 0.26, kMostStream = 1, kInsideStream = 0.15;
constexpr std::size_t kMostInside = 15, kMostBetween = 160, kMostAgain = 3;
constexpr double kSuspicious = 0.7;  // of the rate that most have

using Ranks = std::vector<int>;

// All pairs of `count` players in rounds in which each plays once: one stays where it is and the
// others go round (the circle method). Of an odd number, one rests in each round.
std::vector<std::vector<RankPair>> tournament(int count) {
  const int seats = count + count % 2;
  std::vector<std::vector<RankPair>> rounds;
  for (int turn = 0; turn + 1 < seats && count > 1; ++turn) {
    const auto at = [&](int seat) { return seat == 0 ? 0 : 1 + (seat - 1 + turn) % (seats - 1); };
    std::vector<RankPair>& round = rounds.emplace_back();
    for (int i = 0; i < seats / 2; ++i) {
      const auto [low, high] = std::minmax({at(i), at(seats - 1 - i)});
      if (high < count) round.push_back({low, high});
    }
  }
  return rounds;
}

// `wanted` of them, evenly spread.
template <class T>
std::vector<T> spread(const std::vector<T>& all, std::size_t wanted) {
  if (all.size() <= wanted) return all;
  std::vector<T> some;
  for (std::size_t i = 0; i < wanted; ++i) some.push_back(all[i * all.size() / wanted]);
  return some;
}

std::size_t most_ranks(const std::vector<Ranks>& hosts) {
  std::size_t most = 0;
  for (const Ranks& host : hosts) most = std::max(most, host.size());
  return most;
}

// Every host's own tournament, all hosts at once.
std::vector<MeasureRound> rounds_inside(const std::vector<Ranks>& hosts) {
  std::vector<MeasureRound> rounds;
  for (const Ranks& host : hosts) {
    const auto games = spread(tournament(static_cast<int>(host.size())), kMostInside);
    if (rounds.size() < games.size()) rounds.resize(games.size(), {{}, kInsideStream});
    for (std::size_t i = 0; i < games.size(); ++i)
      for (const RankPair& pair : games[i])
        rounds[i].pairs.push_back({host[static_cast<std::size_t>(pair.first)],
                                   host[static_cast<std::size_t>(pair.second)]});
  }
  return rounds;
}

// A tournament of hosts, in which the ranks number `a` and `b` of each pair meet.
MeasureRound round_between(const std::vector<RankPair>& games, const std::vector<Ranks>& hosts,
                           std::size_t a, std::size_t b) {
  MeasureRound round;
  for (const RankPair& pair : games) {
    const Ranks &first = hosts[static_cast<std::size_t>(pair.first)],
                &second = hosts[static_cast<std::size_t>(pair.second)];
    if (a >= first.size() || b >= second.size()) continue;
    const auto [low, high] = std::minmax({first[a], second[b]});
    round.pairs.push_back({low, high});
  }
  return round;
}

std::vector<MeasureRound> rounds_between(const std::vector<Ranks>& hosts, std::size_t ranks) {
  const auto games = spread(tournament(static_cast<int>(hosts.size())), kMostBetween);
  std::vector<MeasureRound> rounds;
  for (std::size_t a = 0; a < ranks; ++a)
    for (std::size_t b = 0; b < ranks; ++b)
      for (const auto& game : games)
        if (MeasureRound round = round_between(game, hosts, a, b); !round.pairs.empty())
          rounds.push_back(std::move(round));
  return rounds;
}

// Few rounds have more time each.
double stream_seconds(std::size_t rounds) {
  const auto count = static_cast<double>(rounds);
  const double all = std::min(kMostSeconds, kFirstSeconds + kSecondsOfRound * count);
  return std::clamp(all / (2 * count), kLeastStream, kMostStream);
}

// By rank.
std::vector<std::size_t> host_numbers(const std::vector<Ranks>& hosts) {
  std::vector<std::size_t> numbers;
  for (std::size_t host = 0; host < hosts.size(); ++host)
    for (const int rank : hosts[host]) {
      numbers.resize(std::max(numbers.size(), static_cast<std::size_t>(rank) + 1));
      numbers[static_cast<std::size_t>(rank)] = host;
    }
  return numbers;
}

// The links between hosts, with a rate, that are slower than most.
std::vector<Link> suspicious(const std::vector<Link>& links,
                             const std::vector<std::size_t>& host_of) {
  std::vector<double> rates;
  std::vector<Link> found;
  for (const Link& link : links) {
    if (!link.has_rate() ||
        host_of[static_cast<std::size_t>(link.from)] == host_of[static_cast<std::size_t>(link.to)])
      continue;
    found.push_back(link);
    rates.insert(rates.end(), {link.bandwidth, link.back});
  }
  std::sort(rates.begin(), rates.end());
  std::erase_if(found, [&](const Link& link) {
    return std::min(link.bandwidth, link.back) >= kSuspicious * rates[rates.size() / 2];
  });
  return found;
}

}  // namespace

double MeasurePlan::seconds() const {
  double all = static_cast<double>(kMostAgain) * (kRoundCost + 2 * again_seconds);
  for (const MeasureRound& round : rounds) all += kRoundCost + 2 * round.stream_seconds;
  return all;
}

MeasurePlan plan_measurement(const std::vector<Ranks>& hosts) {
  constexpr auto kMostRated = static_cast<std::size_t>(kMostSeconds / (2 * kLeastStream));
  MeasurePlan plan;
  std::vector<MeasureRound> between = rounds_between(hosts, 1);
  const std::size_t ranks = most_ranks(hosts);
  if (ranks * ranks * between.size() <= kMostRated) between = rounds_between(hosts, ranks);
  const std::size_t rated = std::min(between.size(), kMostRated);
  for (std::size_t i = 0; i < rated; ++i)
    between[i * between.size() / rated].stream_seconds = stream_seconds(rated);
  if (rated > 0) plan.again_seconds = kMostStream;
  plan.rounds = rounds_inside(hosts);
  plan.rounds.insert(plan.rounds.end(), between.begin(), between.end());
  plan.most_seconds = kMostSeconds + kLateSeconds;
  return plan;
}

// Each in the first round in which both of its hosts are free.
std::vector<MeasureRound> plan_again(const MeasurePlan& plan, const std::vector<Link>& links,
                                     const std::vector<Ranks>& hosts) {
  const std::vector<std::size_t> host_of = host_numbers(hosts);
  std::vector<MeasureRound> rounds;
  std::vector<std::set<std::size_t>> busy;
  for (const Link& link : suspicious(links, host_of)) {
    const std::size_t a = host_of[static_cast<std::size_t>(link.from)],
                      b = host_of[static_cast<std::size_t>(link.to)];
    std::size_t at = 0;
    while (at < rounds.size() && (busy[at].contains(a) || busy[at].contains(b))) ++at;
    if (at == kMostAgain) continue;
    rounds.resize(std::max(rounds.size(), at + 1), {{}, plan.again_seconds});
    busy.resize(rounds.size());
    rounds[at].pairs.push_back({link.from, link.to});
    busy[at].insert({a, b});
  }
  return rounds;
}

}  // namespace lockstep::cluster::detail
