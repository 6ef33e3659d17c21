// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/doctor_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/observe/text.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;
using cluster::Examination;
using cluster::Examined;
using cluster::Link;
using cluster::Problem;
using Row = std::vector<std::string>;

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

Row member_row(int rank, const Examined& one) {
  const cluster::HostFacts& facts = one.facts;
  return {std::to_string(rank),
          one.host,
          fmt::format("{} {}", one.interface, one.address),
          facts.version,
          facts.instructions.empty() ? "-" : facts.instructions,
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

std::string links_table(const Examination& seen) {
  if (seen.links.empty()) return {};
  std::vector<Row> rows{{"from", "to", "by", "latency", "bandwidth"}};
  for (const Link& link : seen.links) {
    const Examined& from = seen.members[static_cast<std::size_t>(link.from)];
    const Examined& to = seen.members[static_cast<std::size_t>(link.to)];
    rows.push_back({fmt::format("{} ({})", link.from, from.host),
                    fmt::format("{} ({})", link.to, to.host),
                    from.host == to.host ? "this host" : from.interface,
                    fmt::format("{:.1f} us", link.latency * 1e6),
                    fmt::format("{}/s", observe::format_bytes(link.bandwidth))});
  }
  return "\n" + table(rows);
}

std::string verdict(const Examination& seen, const std::vector<Problem>& problems) {
  const auto fatal =
      std::count_if(problems.begin(), problems.end(), [](auto& p) { return p.fatal; });
  if (fatal > 0)
    return fmt::format("\nA job would fail: {} to cure first.\n",
                       observe::format_things(fatal, "problem"));
  return fmt::format(
      "\nReady for a job of {}.\n",
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
          {"cores", facts.cores},
          {"machine_cores", facts.machine_cores},
          {"memory", facts.memory},
          {"memory_free", facts.memory_free},
          {"shm", facts.shm},
          {"shm_free", facts.shm_free},
          {"open_files", facts.open_files},
          {"ports", {facts.first_port, facts.last_port}},
          {"clock_offset_s", one.clock_offset}};
}

}  // namespace

bool is_healthy(const std::vector<Problem>& problems) {
  return std::none_of(problems.begin(), problems.end(), [](auto& one) { return one.fatal; });
}

std::string doctor_text(const Examination& examination, const std::vector<Problem>& problems) {
  std::string text;
  if (!examination.members.empty()) text = members_table(examination) + links_table(examination);
  for (const Problem& one : problems)
    text += fmt::format("\n{}: {}\n  what to do: {}\n", one.fatal ? "problem" : "warning", one.what,
                        one.advice);
  return text + verdict(examination, problems);
}

std::string doctor_json(const Examination& examination, const std::vector<Problem>& problems) {
  Json members = Json::array(), links = Json::array(), list = Json::array();
  for (std::size_t i = 0; i < examination.members.size(); ++i)
    members.push_back(member_json(static_cast<int>(i), examination.members[i]));
  for (const Link& link : examination.links)
    links.push_back({{"from", link.from},
                     {"to", link.to},
                     {"latency_s", link.latency},
                     {"bandwidth_bytes_per_s", link.bandwidth}});
  for (const Problem& one : problems)
    list.push_back({{"fatal", one.fatal}, {"what", one.what}, {"advice", one.advice}});
  const Json all{
      {"ok", is_healthy(problems)}, {"members", members}, {"links", links}, {"problems", list}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::cli
