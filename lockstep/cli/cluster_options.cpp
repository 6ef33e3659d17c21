// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/cluster_options.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/options.h"
#include "lockstep/cluster/launch/hosts.h"

namespace lockstep::cli {
namespace {

// What `lockstep doctor --json` found between the hosts.
parallel::LinkModel link_from(const std::string& file) try {
  const auto network = nlohmann::json::parse(read_file(file)).at("network");
  parallel::LinkModel link = parallel::parse_link("1gbit");
  link.bytes_per_s = network.at("bandwidth_bytes_per_s").at("middle");
  link.latency_s = network.at("latency_s").at("middle");
  return link;
} catch (const nlohmann::json::exception&) {
  throw Corrupt(
      "{}: has no rates between hosts; expected what lockstep doctor --hosts ... --json "
      "has written",
      file);
}

int count_hosts(const ClusterOptions& options, std::int64_t workers) {
  if (options.hosts) {
    if (*options.hosts > workers)
      throw WrongUsage(fmt::format("--hosts {} with {} workers: each has at least one",
                                   *options.hosts, workers));
    return static_cast<int>(*options.hosts);
  }
  if (options.hosts_file.empty()) return 1;
  const auto hosts = static_cast<std::int64_t>(cluster::read_hosts(options.hosts_file).size());
  return static_cast<int>(std::min(hosts, workers));
}

}  // namespace

void add_memory_limit(CLI::App& command, ClusterOptions& options, const char* group) {
  add(command, group, "--memory-limit", options.memory_limit, "BYTES",
      "What a worker may plan for a step, such as 2GB or 512MB");
}

void add_cluster_options(CLI::App& command, ClusterOptions& options, const char* group) {
  CLI::Option* hosts = add_count(command, group, "--hosts", options.hosts, "N",
                                 "That share the workers evenly", 1, 1 << 20)
                           ->default_str("1");
  add(command, group, "--hosts-file", options.hosts_file, "FILE",
      "As many as lockstep launch finds there")
      ->excludes(hosts);
  CLI::Option* links = add(command, group, "--links", options.links, "RATE,LATENCY",
                           "Of a host's link, such as 25gbit,10us");
  add(command, group, "--doctor", options.doctor, "FILE",
      "The same, as lockstep doctor --json has measured it")
      ->excludes(links);
  add_memory_limit(command, options, group);
}

std::size_t parse_bytes(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double factor = unit == "GB" ? 1e9 : unit == "MB" ? 1e6 : unit == "KB" ? 1e3 : 0.0;
  if (end == text.c_str() || factor == 0.0 || !(value > 0.0) || !(value * factor < 1e18))
    throw WrongUsage(
        fmt::format("{} {}: expected a number of GB, MB or KB, such as 2GB", option, text));
  return static_cast<std::size_t>(value * factor);
}

recipes::PlanRunOptions plan_options(const ClusterOptions& options, std::int64_t workers) {
  recipes::PlanRunOptions plan;
  plan.workers = static_cast<int>(workers);
  plan.hosts = count_hosts(options, workers);
  if (plan.hosts > 1 && options.links.empty() && options.doctor.empty())
    throw WrongUsage(fmt::format(
        "{} hosts without links between them: expected --links RATE,LATENCY or --doctor FILE",
        plan.hosts));
  if (!options.doctor.empty()) plan.links = link_from(options.doctor);
  try {
    if (!options.links.empty()) plan.links = parallel::parse_link(options.links);
  } catch (const InvalidArgument& error) {
    throw WrongUsage(fmt::format("--{}", error.what()));
  }
  // Links without a word about hosts: each worker has one of its own.
  if (plan.links && !options.hosts && options.hosts_file.empty()) plan.hosts = plan.workers;
  if (!options.memory_limit.empty())
    plan.memory_limit = parse_bytes("--memory-limit", options.memory_limit);
  return plan;
}

}  // namespace lockstep::cli
