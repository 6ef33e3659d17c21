// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/doctor_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/cluster/doctor/network_summary.h"
#include "lockstep/observe/text.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;
using cluster::Examination;
using cluster::Examined;
using cluster::Link;
using cluster::NetworkSummary;
using cluster::Problem;
using Row = std::vector<std::string>;

// More of them nobody reads: hosts stand for them.
constexpr std::size_t kMostLinks = 28;

std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows[0].size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], observe::display_width(row[i]));
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + std::string(widths[i] - observe::display_width(row[i]) + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string bytes(std::int64_t count) { return observe::format_bytes(static_cast<double>(count)); }

// Each set has those before it.
std::string best_of(const std::string& instructions) {
  return instructions.empty() ? "-" : instructions.substr(instructions.rfind(' ') + 1);
}

Row member_row(int rank, const Examined& one) {
  const cluster::HostFacts& facts = one.facts;
  return {std::to_string(rank),
          one.host,
          fmt::format("{} {}", one.interface, one.address),
          facts.version,
          best_of(facts.instructions),
          std::to_string(facts.cores),
          bytes(facts.memory_free),
          bytes(facts.shm_free),
          std::to_string(facts.open_files),
          fmt::format("{}-{}", facts.first_port, facts.last_port),
          fmt::format("{:+.3f} s", one.clock_offset)};
}

std::string members_table(const Examination& seen) {
  std::vector<Row> rows{{"rank", "host", "interface", "version", "instructions", "cores",
                         "memory free", "/dev/shm free", "files", "ports", "clock"}};
  for (std::size_t i = 0; i < seen.members.size(); ++i)
    rows.push_back(member_row(static_cast<int>(i), seen.members[i]));
  return table(rows);
}

std::string rate(double bytes_per_second) {
  return bytes_per_second > 0 ? observe::format_bytes(bytes_per_second) + "/s" : "-";
}

std::string microseconds(double seconds) { return fmt::format("{:.1f} us", seconds * 1e6); }

std::string links_table(const Examination& seen) {
  if (seen.links.empty() || seen.links.size() > kMostLinks) return {};
  std::vector<Row> rows{{"from", "to", "by", "latency", "there", "back"}};
  for (const Link& link : seen.links) {
    const Examined& from = seen.members[static_cast<std::size_t>(link.from)];
    const Examined& to = seen.members[static_cast<std::size_t>(link.to)];
    rows.push_back({fmt::format("{} ({})", link.from, from.host),
                    fmt::format("{} ({})", link.to, to.host),
                    from.host == to.host ? "this host" : from.interface, microseconds(link.latency),
                    rate(link.bandwidth), rate(link.back)});
  }
  return "\n" + table(rows);
}

// Each host and how fast it is with the others: the middle one, and the slowest.
std::string hosts_table(const NetworkSummary& network) {
  if (network.hosts.size() < 3 || network.rated == 0) return {};
  std::vector<Row> rows{{"host", "sends", "at least", "receives", "at least"}};
  for (const cluster::HostRates& one : network.hosts)
    rows.push_back({one.host, rate(one.sends.middle), rate(one.sends.lowest),
                    rate(one.receives.middle), rate(one.receives.lowest)});
  return "\n" + table(rows);
}

std::string network_line(const NetworkSummary& network) {
  if (network.links == 0) return {};
  const std::string part = network.rated < network.links ? fmt::format("; rates of {} of {} pairs",
                                                                       network.rated, network.links)
                                                         : "";
  return fmt::format("Between {} hosts: {} ({} to {}), {} ({} to {}){}.\n", network.hosts.size(),
                     rate(network.rate.middle), rate(network.rate.lowest),
                     rate(network.rate.highest), microseconds(network.latency.middle),
                     microseconds(network.latency.lowest), microseconds(network.latency.highest),
                     part);
}

std::string verdict(const Examination& seen, const std::vector<Problem>& problems) {
  const auto fatal =
      std::count_if(problems.begin(), problems.end(), [](auto& p) { return p.fatal; });
  if (fatal > 0)
    return fmt::format("A job would fail: {} to cure first.\n",
                       observe::format_things(fatal, "problem"));
  return fmt::format(
      "Ready for a job of {}.\n",
      observe::format_things(static_cast<std::int64_t>(seen.members.size()), "worker"));
}

Json member_json(int rank, const Examined& one) {
  const cluster::HostFacts& facts = one.facts;
  return {{"rank", rank},
          {"host", one.host},
          {"interface", one.interface},
          {"address", one.address},
          {"version", facts.version},
          {"processor", facts.processor},
          {"instructions", facts.instructions},
          {"bad_instructions", facts.bad_instructions},
          {"cores", facts.cores},
          {"machine_cores", facts.machine_cores},
          {"memory", facts.memory},
          {"memory_limit", facts.memory_limit},
          {"memory_free", facts.memory_free},
          {"shm", facts.shm},
          {"shm_free", facts.shm_free},
          {"open_files", facts.open_files},
          {"ports", {facts.first_port, facts.last_port}},
          {"clock_offset_s", one.clock_offset}};
}

// What was not measured is null.
Json rate_json(double rate) { return rate > 0 ? Json(rate) : Json(); }

Json spread_json(const cluster::Spread& spread) {
  return {{"lowest", rate_json(spread.lowest)},
          {"middle", rate_json(spread.middle)},
          {"highest", rate_json(spread.highest)}};
}

Json host_json(const cluster::HostRates& one) {
  return {{"host", one.host},
          {"sends_bytes_per_s", spread_json(one.sends)},
          {"receives_bytes_per_s", spread_json(one.receives)}};
}

Json link_json(const Link& link) {
  return {{"from", link.from},
          {"to", link.to},
          {"latency_s", link.latency},
          {"bandwidth_bytes_per_s", rate_json(link.bandwidth)},
          {"bandwidth_back_bytes_per_s", rate_json(link.back)}};
}

Json network_json(const NetworkSummary& network) {
  return {{"hosts", network.hosts.size()},
          {"links", network.links},
          {"rated_links", network.rated},
          {"latency_s", spread_json(network.latency)},
          {"bandwidth_bytes_per_s", spread_json(network.rate)}};
}

}  // namespace

bool is_healthy(const std::vector<Problem>& problems) {
  return std::none_of(problems.begin(), problems.end(), [](auto& one) { return one.fatal; });
}

// The verdict stands at both ends: a long report has left the screen but for its last lines.
std::string doctor_text(const Examination& examination, const std::vector<Problem>& problems) {
  const NetworkSummary network = cluster::summarize_network(examination);
  const std::string end = verdict(examination, problems);
  std::string text = end + network_line(network);
  for (const Problem& one : problems)
    text += fmt::format("\n{}: {}\n  what to do: {}\n", one.fatal ? "problem" : "warning", one.what,
                        one.advice);
  if (examination.members.empty()) return text;
  return text + "\n" + members_table(examination) + hosts_table(network) +
         links_table(examination) + "\n" + end;
}

std::string doctor_json(const Examination& examination, const std::vector<Problem>& problems) {
  const NetworkSummary network = cluster::summarize_network(examination);
  Json members = Json::array(), hosts = Json::array(), links = Json::array(), list = Json::array();
  for (std::size_t i = 0; i < examination.members.size(); ++i)
    members.push_back(member_json(static_cast<int>(i), examination.members[i]));
  for (const cluster::HostRates& one : network.hosts) hosts.push_back(host_json(one));
  for (const Link& link : examination.links) links.push_back(link_json(link));
  for (const Problem& one : problems)
    list.push_back({{"fatal", one.fatal}, {"what", one.what}, {"advice", one.advice}});
  const Json all{{"ok", is_healthy(problems)},
                 {"network", network_json(network)},
                 {"members", members},
                 {"hosts", hosts},
                 {"links", links},
                 {"problems", list}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::cli
