// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/detail/network_problems.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "lockstep/cluster/doctor/network_summary.h"

namespace lockstep::cluster::detail {
namespace {

constexpr double kMuchSlower = 0.5;         // of what others have
constexpr double kLeastBandwidth = 12.5e6;  // bytes a second: 100 Mbit/s
constexpr double kMostLatency = 5e-3;
constexpr std::size_t kFewestToCompare = 3;  // hosts
constexpr std::size_t kMostNamed = 5;        // of one kind

std::string megabytes(double rate) { return fmt::format("{:.1f} MB/s", rate / 1e6); }

// One way of a link.
struct Way {
  std::string from, to;
  double rate = 0, back = 0;
};

class NetworkDoctor {
 public:
  explicit NetworkDoctor(const Examination& examination)
      : seen_(examination), network_(summarize_network(examination)) {}

  std::vector<Problem> run() {
    if (network_.hosts.size() >= kFewestToCompare) compare_hosts();
    check_ways();
    check_latencies();
    return std::move(problems_);
  }

 private:
  void warn(std::string what, std::string advice) {
    problems_.push_back({false, std::move(what), std::move(advice)});
  }
  const std::string& host(int rank) const {
    return seen_.members[static_cast<std::size_t>(rank)].host;
  }

  void compare_hosts() {
    std::vector<double> sends, receives;
    for (const HostRates& one : network_.hosts) {
      sends.push_back(one.sends.middle);
      receives.push_back(one.receives.middle);
    }
    const double sent = spread_of(sends).middle, received = spread_of(receives).middle;
    for (const HostRates& one : network_.hosts) {
      if (one.sends.middle < kMuchSlower * sent) slow_senders_.insert(one.host);
      if (one.receives.middle < kMuchSlower * received) slow_receivers_.insert(one.host);
      if (one.sends.highest > 0) name_slow(one, std::max(sent, received));
    }
  }

  void name_slow(const HostRates& one, double usual) {
    const bool out = slow_senders_.contains(one.host), in = slow_receivers_.contains(one.host);
    if (!out && !in) return;
    const std::string sends = "sends " + megabytes(one.sends.middle),
                      receives = "receives " + megabytes(one.receives.middle);
    const std::string what = out && in ? sends + " and " + receives
                             : out     ? sends + " but " + receives
                                       : receives + " but " + sends;
    warn(
        fmt::format("{}: a slow host: it {}; most hosts have {}", one.host, what, megabytes(usual)),
        "look at its cable, its switch port, limits of traffic and who else uses it, or name "
        "another --interface");
  }

  // The slower way of each link between hosts that no slow host explains.
  std::vector<Way> slower_ways() const {
    std::vector<Way> ways;
    for (const Link& link : seen_.links) {
      const std::string &from = host(link.from), &to = host(link.to);
      if (from == to || !link.has_rate()) continue;
      Way there{from, to, link.bandwidth, link.back}, back{to, from, link.back, link.bandwidth};
      if (there.rate > back.rate) std::swap(there, back);
      for (const Way& way : {there, back})
        if (!slow_senders_.contains(way.from) && !slow_receivers_.contains(way.to)) {
          ways.push_back(way);
          break;
        }
    }
    std::sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) { return a.rate < b.rate; });
    return ways;
  }

  bool is_slow_for_its_hosts(const Way& way) const {
    return network_.hosts.size() >= kFewestToCompare &&
           way.rate < kMuchSlower * std::min(network_.find(way.from).sends.middle,
                                             network_.find(way.to).receives.middle);
  }

  void check_ways() {
    std::vector<std::string> one_sided, odd, slow;
    for (const Way& way : slower_ways()) {
      const std::string text = fmt::format("{} to {}: {}", way.from, way.to, megabytes(way.rate));
      if (way.rate < kMuchSlower * way.back)
        one_sided.push_back(fmt::format("{}, but {} back", text, megabytes(way.back)));
      else if (is_slow_for_its_hosts(way))
        odd.push_back(fmt::format("{}, while {} sends {} and {} receives {} elsewhere", text,
                                  way.from, megabytes(network_.find(way.from).sends.middle), way.to,
                                  megabytes(network_.find(way.to).receives.middle)));
      else if (way.rate < kLeastBandwidth)
        slow.push_back(text);
    }
    name(one_sided, "look for a limit of traffic that holds one way, and for a bad cable or port");
    name(odd, "look at what lies between the two: switches, routes, a firewall");
    name(slow, "choose a faster --interface, or --compression");
  }

  void check_latencies() {
    std::vector<std::pair<double, std::string>> slow;
    for (const Link& link : seen_.links)
      if (host(link.from) != host(link.to) && link.latency > kMostLatency)
        slow.emplace_back(-link.latency,
                          fmt::format("{} to {}: {:.1f} ms from one to the other", host(link.from),
                                      host(link.to), link.latency * 1e3));
    std::sort(slow.begin(), slow.end());
    std::vector<std::string> lines;
    for (const auto& one : slow) lines.push_back(one.second);
    name(lines, "larger steps (--global-batch), so that members wait less often");
  }

  // The worst come first.
  void name(const std::vector<std::string>& lines, const std::string& advice) {
    const std::size_t named = lines.size() > kMostNamed ? kMostNamed - 1 : lines.size();
    for (std::size_t i = 0; i < named; ++i) warn(lines[i], advice);
    if (named < lines.size())
      warn(fmt::format("{} more links as {}", lines.size() - named, lines[named]),
           advice + "; --json has all");
  }

  const Examination& seen_;
  NetworkSummary network_;
  std::set<std::string> slow_senders_, slow_receivers_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> find_network_problems(const Examination& examination) {
  return NetworkDoctor(examination).run();
}

}  // namespace lockstep::cluster::detail
