// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/launch_options.h"

#include <fmt/core.h>

#include <cstdlib>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/options.h"
#include "lockstep/cluster/membership/store.h"
#include "lockstep/comm/group.h"

namespace lockstep::cli {

namespace {

std::vector<std::string> ssh_words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.empty()) throw WrongUsage("--ssh: is empty, expected a command such as ssh");
  return words;
}

std::string setting_of(const std::string& variable) {
  if (variable.find('=') != std::string::npos) return variable;
  const char* value = std::getenv(variable.c_str());
  if (value == nullptr) throw WrongUsage(fmt::format("--env {}: is not set here", variable));
  return variable + "=" + value;
}

// HOST, HOST:PORT, ADDRESS, [ADDRESS], [ADDRESS]:PORT
comm::Endpoint coordinator_of(const std::string& text) {
  if (text.find(':') == std::string::npos || cluster::is_ipv6_address(text)) return {text, 0};
  if (text.front() == '[' && text.back() == ']') return {text.substr(1, text.size() - 2), 0};
  try {
    return comm::parse_endpoint(text);
  } catch (const InvalidArgument& error) {
    throw WrongUsage(fmt::format("--coordinator: {}", error.what()));
  }
}

}  // namespace

std::chrono::milliseconds HostOptions::patience() const {
  return std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1000));
}

std::vector<cluster::HostSlots> HostOptions::slots() const {
  try {
    if (!hosts_file.empty()) return cluster::read_hosts(hosts_file);
    return hosts.empty() ? std::vector<cluster::HostSlots>() : cluster::parse_hosts(hosts);
  } catch (const InvalidArgument& error) {
    throw WrongUsage(error.what());
  }
}

// Of a name that is given twice, the last value.
std::vector<std::string> HostOptions::settings() const {
  std::vector<std::string> settings;
  for (const std::string& variable : variables) {
    std::string setting = setting_of(variable);
    const std::string name = setting.substr(0, setting.find('=') + 1);
    if (name == "=") throw WrongUsage(fmt::format("--env {}: has no name before =", variable));
    std::erase_if(settings, [&](const std::string& other) { return other.starts_with(name); });
    settings.push_back(std::move(setting));
  }
  return settings;
}

std::vector<cluster::HostSlots> HostOptions::spare_slots() const {
  if (spares.empty()) return {};
  if (hosts.empty() && hosts_file.empty())
    throw WrongUsage(
        fmt::format("--spares {} without hosts: expected --hosts or --hosts-file", spares));
  try {
    return cluster::parse_hosts(spares);
  } catch (const InvalidArgument& error) {
    throw WrongUsage(fmt::format("--spares: {}", error.what()));
  }
}

cluster::LaunchOptions HostOptions::launch() const {
  cluster::LaunchOptions options;
  options.hosts = slots();
  options.hosts_file = hosts_file;
  options.spares = spare_slots();
  options.workers = workers;
  options.ssh = ssh_words(ssh);
  options.program = remote_program;
  options.folder = folder;
  options.environment = settings();
  options.coordinator = coordinator_of(coordinator);
  options.timeout = patience();
  return options;
}

void add_host_options(CLI::App& c, HostOptions& o, const char* workers) {
  CLI::Option* hosts = add(c, kWhere, "--hosts", o.hosts, "A:2,B:2",
                           "Hosts as ssh knows them, and how many workers each takes");
  add(c, kWhere, "--hosts-file", o.hosts_file, "FILE",
      "The same, one 'host', 'host:N' or 'host slots=N' a line")
      ->excludes(hosts);
  add_count(c, kWhere, "-n,--workers", o.workers, "N",
            "How many in all; without hosts, on this machine", 1, 1 << 20)
      ->default_str(workers);
  add(c, kWhere, "--folder", o.folder, "DIR", "Where workers run; this folder by default");
  add(c, kHow, "--ssh", o.ssh, "WORDS", "The command that reaches a host")->default_str("ssh");
  add(c, kHow, "--remote-program", o.remote_program, "PATH",
      "Where lockstep is on the other hosts; the same place as here by default");
  add(c, kHow, "--coordinator", o.coordinator, "HOST[:PORT]",
      "Where workers find this machine; found out by default, a free port");
  add(c, kHow, "--env", o.variables, "NAME", "A variable for all workers: NAME of ours, NAME=VALUE")
      ->allow_extra_args(false);
  add_real(c, kHow, "--timeout", o.timeout, "SECONDS",
           "Until all hosts answer and all workers meet; a host that is silent for so long is lost",
           seconds())
      ->default_str(fmt::format("{}", o.timeout));
}

void CareOptions::apply(cluster::LaunchOptions& options) const {
  options.log_folder = log_folder;
  options.binding = parse_binding(binding);
}

void add_care_options(CLI::App& command, CareOptions& options, const char* group) {
  add(command, group, "--log-dir", options.log_folder, "DIR",
      "Keep what each process says in a file of its own there, too");
  add(command, group, "--bind", options.binding, "TO",
      "Bind each worker to its share of its host's cores, or to a memory node")
      ->check(CLI::IsMember({"none", "core", "numa"}))
      ->default_str("none");
}

void add_store_option(CLI::App& command, std::string& store, const char* group) {
  const auto check = [](const std::string& text) -> std::string {
    try {
      cluster::open_store(text);
      return {};
    } catch (const InvalidArgument& error) {
      return error.what();
    }
  };
  add(command, group, "--store", store, "etcd://HOST:PORT,...",
      "Keep who is in the job in etcd: it goes on when its launcher is lost (lockstep attach)")
      ->check(CLI::Validator(check, ""));
}

void add_connect_options(CLI::App& command, ConnectOptions& options, const char* group) {
  std::vector<std::string> transports = comm::transport_names();
  transports.emplace_back("mpi");  // by which a job of mpirun connects itself
  CLI::Option* transport =
      command
          .add_option("--transport", options.transport,
                      "How workers are connected; auto: shared memory inside a host, tcp between")
          ->type_name("NAME")
          ->check(CLI::IsMember(transports))
          ->group(group);
  command
      .add_option_function<std::string>(
          "--ports",
          [&options](const std::string& text) {
            try {
              if (text.empty()) throw InvalidArgument("ports: none are given, expected A-B");
              options.ports = comm::parse_ports(text);
            } catch (const InvalidArgument& error) {
              throw CLI::ValidationError("--ports", error.what());
            }
          },
          "The ports that the job's processes may listen at; any that are free by default")
      ->type_name("A-B")
      ->group(group);
  command.add_flag("--secure", options.secure, "Encrypted between all workers: --transport zmq")
      ->excludes(transport)
      ->group(group);
  command
      .add_option("--interface", options.interface,
                  "The network interface of every worker, by name or address; by default the one "
                  "that reaches the launcher")
      ->type_name("NAME")
      ->group(group);
}

}  // namespace lockstep::cli
