// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/launch_options.h"

#include <fmt/core.h>

#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/options.h"

namespace lockstep::cli {

namespace {

std::vector<std::string> ssh_words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.empty()) throw WrongUsage("--ssh: is empty, expected a command such as ssh");
  return words;
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

cluster::LaunchOptions HostOptions::launch() const {
  cluster::LaunchOptions options;
  options.hosts = slots();
  options.workers = workers;
  options.ssh = ssh_words(ssh);
  options.program = remote_program;
  options.timeout = patience();
  return options;
}

void add_host_options(CLI::App& c, HostOptions& o, const char* workers) {
  CLI::Option* hosts = add(c, kWhere, "--hosts", o.hosts, "A:2,B:2",
                           "Hosts as ssh knows them, and how many workers each takes");
  add(c, kWhere, "--hosts-file", o.hosts_file, "FILE", "The same, one 'host [slots=N]' a line")
      ->excludes(hosts);
  add(c, kWhere, "--workers", o.workers, "N", "How many in all; without hosts, on this machine")
      ->check(CLI::Range(1, 1 << 20))
      ->default_str(workers);
  add(c, kHow, "--ssh", o.ssh, "WORDS", "The command that reaches a host")->default_str("ssh");
  add(c, kHow, "--remote-program", o.remote_program, "PATH",
      "Where lockstep is on the other hosts; the same place as here by default");
  add(c, kHow, "--timeout", o.timeout, "SECONDS",
      "Until all hosts answer and all workers meet; a host that is silent for so long is lost")
      ->check(seconds())
      ->default_str(fmt::format("{}", o.timeout));
}

void add_connect_options(CLI::App& command, ConnectOptions& options, const char* group) {
  CLI::Option* transport =
      command
          .add_option("--transport", options.transport,
                      "How workers are connected; auto: shared memory inside a host, tcp between")
          ->type_name("NAME")
          ->check(CLI::IsMember({"auto", "shm", "tcp", "ucx", "zmq", "mpi"}))
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
