// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/process.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/doctor_kernels.h"
#include "lockstep/cli/doctor_report.h"
#include "lockstep/cli/launch_options.h"
#include "lockstep/cli/launch_report.h"
#include "lockstep/cluster/launch/launch.h"
#include "lockstep/ops/instruction_set.h"

namespace lockstep::cli {
namespace {

// How rank 0 tells whoever launched it that it has printed a bad report.
constexpr int kUnhealthy = 10;

struct DoctorCommandOptions {
  DoctorCommandOptions() { hosts.timeout = 30; }
  HostOptions hosts;
  ConnectOptions connect;
  bool json = false;
  bool member = false;               // launched by another doctor
  std::vector<std::string> already;  // what that one has found out: what, advice, what, ...
};

std::vector<cluster::Problem> known_problems(const DoctorCommandOptions& o) {
  std::vector<cluster::Problem> problems;
  for (std::size_t i = 0; i + 1 < o.already.size(); i += 2)
    problems.push_back({true, o.already[i], o.already[i + 1]});
  return problems;
}

int print_report(const DoctorCommandOptions& o, const cluster::Examination& examination,
                 const std::vector<cluster::Problem>& problems) {
  if (o.json)
    fmt::print("{}\n", doctor_json(examination, problems));
  else
    fmt::print("{}", doctor_text(examination, problems));
  if (is_healthy(problems)) return 0;
  return o.member ? kUnhealthy : kFailure;
}

int examine_as_member(const DoctorCommandOptions& o, const cluster::Place& place) {
  cluster::JobOptions job;
  job.transport = o.connect.transport_name();
  job.interface = o.connect.interface;
  job.ports = o.connect.ports;
  job.timeout = o.hosts.patience();
  cluster::HostFacts facts = cluster::look_at_host();
  add_trials(facts, try_kernels(best_instruction_set()));
  const cluster::Examination examination = cluster::examine(place, job, facts);
  if (examination.rank != 0) return 0;
  std::vector<cluster::Problem> problems = known_problems(o);
  for (const cluster::Problem& one : cluster::diagnose(examination)) problems.push_back(one);
  return print_report(o, examination, problems);
}

// Where nobody can be examined, the reason is the report.
int be_member(const DoctorCommandOptions& o, const cluster::Place& place) {
  try {
    return examine_as_member(o, place);
  } catch (const Error& error) {
    if (!o.member || place.rank != 0) throw;
    std::vector<cluster::Problem> problems = known_problems(o);
    problems.push_back({true, error.what(), "cure what is named there"});
    return print_report(o, {}, problems);
  }
}

std::vector<std::string> member_command(const DoctorCommandOptions& o) {
  std::vector<std::string> command{
      o.hosts.remote_program.empty() ? program_path().string() : o.hosts.remote_program, "doctor",
      "--member", "--timeout", fmt::format("{}", o.hosts.timeout)};
  if (o.json) command.emplace_back("--json");
  for (const std::string& text : o.already) command.push_back("--already=" + text);
  return command;
}

cluster::LaunchOptions launch_options(const DoctorCommandOptions& o,
                                      const std::vector<cluster::HostSlots>& hosts) {
  cluster::LaunchOptions launch = o.hosts.launch();
  launch.command = member_command(o);
  launch.hosts = hosts;
  // Alone, a host shows what its members would have between them.
  if (launch.workers == 0 && hosts.empty()) launch.workers = 2;
  launch.interface = o.connect.interface;
  launch.transport = o.connect.transport_name();
  launch.ports = o.connect.ports;
  return launch;
}

// The launcher's errors name the host that they are about; of several that were silent, all.
bool is_named(const cluster::HostSlots& host, const std::string& error) {
  const std::string name = " " + host.name;
  return error.find(name + ":") != std::string::npos || error.find(name + ",") != std::string::npos;
}

std::string advice_for(const cluster::HostSlots& host, const Error& error) {
  if (std::string(error.kind()) == "Refused") return "install the same version on all hosts";
  return fmt::format("try it by hand: ssh {} lockstep --version", host.name);
}

// The job's members have not come to a report: what they said last is the report.
int report_failure(DoctorCommandOptions o, const cluster::LaunchResult& result) {
  const cluster::MemberEnd* culprit = result.culprit();
  if (result.stopped_by != 0) return 128 + result.stopped_by;
  const std::string what = culprit == nullptr ? "the members ended early" : culprit->str();
  const std::string lines = culprit == nullptr ? "" : culprit->last_lines;
  o.already.insert(o.already.end(), {fmt::format("{}: {}", what, lines.substr(0, lines.find('\n'))),
                                     "cure what is named there"});
  return print_report(o, {}, known_problems(o));
}

int launch_members(const DoctorCommandOptions& o, const std::vector<cluster::HostSlots>& hosts) {
  const cluster::LaunchResult result = cluster::launch(launch_options(o, hosts));
  for (const cluster::MemberEnd& end : result.ends) {
    if (end.rank != 0 || end.signal != 0 || !end.lost.empty()) continue;
    if (end.status == 0) return report_launch(result);  // whoever died after the report is named
    if (end.status == kUnhealthy) return kFailure;
  }
  return report_failure(o, result);
}

// Those that an error names, each noted as a problem, are no longer among the hosts; false: there
// are none.
bool leave_out(DoctorCommandOptions& o, std::vector<cluster::HostSlots>& hosts,
               const Error& error) {
  const bool all = std::string(error.kind()) == "Timeout";
  const auto before = hosts.size();
  for (auto one = hosts.begin(); one != hosts.end() && (all || hosts.size() == before);) {
    if (!is_named(*one, error.what())) {
      ++one;
      continue;
    }
    if (hosts.size() == before)
      o.already.insert(o.already.end(), {error.what(), advice_for(*one, error)});
    one = hosts.erase(one);
  }
  return hosts.size() < before;
}

// A host that cannot be had is noted, and the rest examined without it.
int examine_hosts(DoctorCommandOptions o, std::vector<cluster::HostSlots> hosts) {
  while (true) {
    try {
      return launch_members(o, hosts);
    } catch (const InvalidArgument& error) {
      throw WrongUsage(error.what());
    } catch (const Error& error) {
      if (!leave_out(o, hosts, error)) throw;
      o.hosts.workers = 0;
      if (hosts.empty()) return print_report(o, {}, known_problems(o));
    }
  }
}

int doctor(const DoctorCommandOptions& o) {
  if (const auto place = cluster::find_place()) return be_member(o, *place);
  return examine_hosts(o, o.hosts.slots());
}

void add_options(CLI::App& c, DoctorCommandOptions& o) {
  add_host_options(c, o.hosts, "2 on this machine");
  add_connect_options(c, o.connect, kHow);
  c.add_flag("--json", o.json, "One JSON object on standard output")->group(kHow);
  c.add_flag("--member", o.member)->group("");
  c.add_option("--already", o.already)->group("")->allow_extra_args(false);
}

}  // namespace

void add_doctor_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<DoctorCommandOptions>();
  CLI::App* command =
      app.add_subcommand("doctor", "Check machines before a job: what would go wrong, what to do");
  command->group(kToolGroup);
  add_options(*command, *options);
  command->footer(R"(Examples:
  lockstep doctor                          this machine
  lockstep doctor --hosts a:2,b:2          can they reach each other, how fast, are they alike?
  srun -n 8 lockstep doctor                the nodes of a Slurm step; mpirun likewise

Exit status 1 when a job would fail.)");
  command->callback([&action, options] { action = [options] { return doctor(*options); }; });
}

}  // namespace lockstep::cli
