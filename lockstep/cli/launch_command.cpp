// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/job_registry.h"
#include "lockstep/cli/kubernetes.h"
#include "lockstep/cli/launch_again.h"
#include "lockstep/cli/launch_check.h"
#include "lockstep/cli/launch_options.h"
#include "lockstep/cli/launch_report.h"
#include "lockstep/cli/options.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/cluster/launch/agent.h"
#include "lockstep/recipes/run_mode.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// Of a variable for the workers: all of them together have a limit.
constexpr std::size_t kLongestLine = 16384;

struct LaunchCommandOptions {
  HostOptions hosts;
  std::vector<std::string> command;
  ConnectOptions connect;
  CareOptions care;
  int servers = 0;
  KubernetesJob kubernetes;
  double grace = 10;  // seconds
  std::string store;
  bool agent = false;
};

std::chrono::milliseconds grace_of(const LaunchCommandOptions& o) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(o.grace * 1000));
}

void add_options(CLI::App& c, LaunchCommandOptions& o) {
  add_host_options(c, o.hosts);
  add(c, kWhere, "--spares", o.hosts.spares, "C:2,D:1",
      "Hosts for workers whose own are lost, or have lost too many");
  add_count(c, kWhere, "-s,--servers", o.servers, "N",
            "Processes of the role server beside the workers, one host after the other", 0, 1 << 20)
      ->default_str("0");
  add_real(c, kHow, "--grace", o.grace, "SECONDS",
           "How long workers may take to end after Ctrl-C, SIGTERM or another's failure", seconds())
      ->default_str("10");
  add_care_options(c, o.care, kHow);
  add_store_option(c, o.store, kHow);
  add_connect_options(c, o.connect, kHow);
  add_kubernetes_options(c, o.kubernetes);
  c.add_flag("--agent", o.agent)->group("");
  c.add_option("command", o.command, "The program and its arguments, after --")
      ->type_name("PROGRAM ARGUMENTS...");
}

// The words of our own command line before the program's. What stands among the program's words
// without -- before them would be ours too: nobody means that.
std::vector<std::string> own_part(const LaunchCommandOptions& o) {
  std::vector<std::string> words = own_words();
  const auto is_rest = [&](std::size_t begin) {
    return std::equal(words.begin() + static_cast<std::ptrdiff_t>(begin), words.end(),
                      o.command.begin(), o.command.end());
  };
  std::size_t end = 0;
  while (end < words.size() && !is_rest(end)) ++end;
  if (end == words.size())
    throw WrongUsage(
        fmt::format("launch: options of launch stand after the program {}, or -- within its words; "
                    "expected lockstep launch [OPTIONS] -- PROGRAM ...",
                    o.command[0]));
  words.resize(end);
  return words;
}

// How to have this job again.
std::string to_launch_again(const LaunchCommandOptions& o) {
  std::vector<std::string> words = own_part(o);
  if (words.empty() || words.back() != "--") words.emplace_back("--");
  const std::string line = shell_line(words);
  return line.size() > kLongestLine ? "" : line;
}

cluster::LaunchOptions launch_options(const LaunchCommandOptions& o) {
  cluster::LaunchOptions options = o.hosts.launch();
  options.command = o.command;
  if (!options.hosts.empty() && options.workers > 0)
    options.hosts = cluster::take_slots(std::move(options.hosts), options.workers);
  options.environment.push_back("LOCKSTEP_LAUNCHED_BY=" + to_launch_again(o));
  options.grace = grace_of(o);
  options.servers = o.servers;
  options.interface = o.connect.interface;
  options.transport = o.connect.transport_name();
  options.ports = o.connect.ports;
  o.care.apply(options);
  options.store = o.store;
  return options;
}

// What a manifest has no place for is not dropped in silence.
void check_for_manifest(const HostOptions& hosts) {
  if (!hosts.hosts.empty() || !hosts.hosts_file.empty() || !hosts.spares.empty())
    throw WrongUsage("--kubernetes with --hosts: Kubernetes chooses the hosts; leave them out");
  if (!hosts.coordinator.empty())
    throw WrongUsage("--kubernetes with --coordinator: pods find the first one; leave it out");
  if (hosts.ssh != HostOptions().ssh || !hosts.remote_program.empty())
    throw WrongUsage(fmt::format("--kubernetes with {}: no host is reached by ssh; leave it out",
                                 hosts.remote_program.empty() ? "--ssh" : "--remote-program"));
}

int print_manifest(const LaunchCommandOptions& o) {
  check_for_manifest(o.hosts);
  if (!o.store.empty())
    throw WrongUsage("--kubernetes with --store: its pods coordinate themselves; leave it out");
  if (!o.command.empty()) own_part(o);  // throws
  KubernetesJob job = o.kubernetes;
  job.workers = o.hosts.workers;
  job.servers = o.servers;
  job.transport = o.connect.transport_name();
  job.interface = o.connect.interface;
  job.ports = to_string(o.connect.ports);
  job.folder = o.hosts.folder;
  if (o.hosts.timeout != HostOptions().timeout)
    job.timeout = std::chrono::ceil<std::chrono::seconds>(o.hosts.patience()).count();
  job.environment = o.hosts.settings();
  job.command = o.command;
  check_kubernetes(job);
  if (job.retries.value_or(0) > 0 && starts_anew(job.command))
    throw WrongUsage(
        fmt::format("--retries {}: expected lockstep train --resume auto --out DIR, "
                    "which goes on where it was",
                    *job.retries));
  const auto config = check_train_command(job.command, job.workers, job.servers, "");
  job.tolerates_lost_servers = config && config->replicas > 1;
  job.survives = survives_losses(job.command) && job.workers > 1;
  fmt::print("{}", kubernetes_manifest(job));
  fmt::print(stderr, "{}", kubernetes_advice(job));
  return 0;
}

int be_agent(const LaunchCommandOptions& o) {
  cluster::AgentOptions options;
  options.timeout = o.hosts.patience();
  options.grace = grace_of(o);
  return cluster::run_agent(options);
}

// Where the first worker runs, when it is here.
std::string first_folder(const cluster::LaunchOptions& options) {
  if (!options.hosts.empty() && !cluster::is_this_machine(options.hosts[0].name)) return {};
  return options.folder.empty() ? "." : options.folder;
}

int launch(const LaunchCommandOptions& o) {
  if (o.agent) return be_agent(o);
  if (o.kubernetes.wanted) return print_manifest(o);
  check_not_kubernetes(o.kubernetes);
  if (o.command.empty())
    throw WrongUsage("launch: no program was named: lockstep launch [OPTIONS] -- PROGRAM ...");
  cluster::LaunchOptions options;
  try {
    options = launch_options(o);
  } catch (const InvalidArgument& error) {
    throw WrongUsage(error.what());
  }
  const std::string folder = first_folder(options);
  bool survives = false;
  const auto config =
      check_train_command(options.command, worker_count(options), options.servers, folder);
  if (config) {
    recipes::check_supported(*config);
    take_limits(options, *config);
    survives = survives_losses(options.command) && worker_count(options) > 1;
  }
  take_store(options, config);
  const observe::ListedJob listed = list_launcher(options);
  const auto go_on = [&, words = options.command]() -> std::vector<std::string> {
    const std::string run = run_of(words);
    const bool is_there = !run.empty() && !folder.empty() && has_run(fs::path(folder) / run);
    return is_there ? resuming(words, run) : std::vector<std::string>();
  };
  return report_launch(
      launch_until_done(options, go_on, survives ? AfterLoss::goes_on : AfterLoss::ends));
}

}  // namespace

void add_launch_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<LaunchCommandOptions>();
  CLI::App* command =
      app.add_subcommand("launch", "Run a program as a job of several processes, on many hosts");
  command->group(kModelGroup);
  add_options(*command, *options);
  command->footer(R"(Examples:
  lockstep launch --workers 4 -- lockstep train cifar-cnn
  lockstep launch --hosts a:2,b:2 -- lockstep train cifar-cnn --out run
  lockstep launch --hosts-file hosts --secure -- ./my_program
  lockstep launch -n 4 -s 2 -- lockstep train cifar-cnn --kvstore ps_sync
  lockstep launch --kubernetes --name digits --image registry/lockstep:1 --workers 4 \
    -- lockstep train mnist-lenet | kubectl apply -f -

Every worker and server runs the program, which finds its role in its environment
(LOCKSTEP_ROLE); rank 0 has the standard output. Ctrl-C stops all, a second one ends
them at once. The program must be at the same place on all hosts, and ssh must not ask for a
password.)");
  command->callback([&action, options] { action = [options] { return launch(*options); }; });
}

}  // namespace lockstep::cli
