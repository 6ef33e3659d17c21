// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/diagnosis.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "lockstep/cluster/doctor/detail/network_problems.h"

namespace lockstep::cluster {
namespace {

constexpr std::int64_t kMegabyte = 1 << 20;
constexpr std::int64_t kShmPerMember = 4 * kMegabyte;
constexpr std::int64_t kLeastMemory = 512 * kMegabyte;
constexpr std::int64_t kFilesOfItsOwn = 64, kFilesPerMember = 4;
constexpr std::int64_t kFewPorts = 1000;
constexpr double kMostOffset = 1.0;  // seconds

// Hosts, each with the first of its members.
std::map<std::string, const Examined*> hosts_of(const Examination& examination) {
  std::map<std::string, const Examined*> hosts;
  for (const Examined& one : examination.members) hosts.try_emplace(one.host, &one);
  return hosts;
}

std::int64_t members_on(const Examination& examination, const std::string& host) {
  return std::count_if(examination.members.begin(), examination.members.end(),
                       [&](const Examined& one) { return one.host == host; });
}

// "0.1.0 on a, b; 0.2.0 on c" when they differ; else empty.
std::string differences(const Examination& examination,
                        const std::function<std::string(const HostFacts&)>& fact) {
  std::map<std::string, std::string> hosts;  // by value
  for (const auto& [host, member] : hosts_of(examination)) {
    std::string& list = hosts[fact(member->facts)];
    list += (list.empty() ? "" : ", ") + host;
  }
  if (hosts.size() < 2) return {};
  std::string text;
  for (const auto& [value, list] : hosts)
    text +=
        fmt::format("{}{} on {}", text.empty() ? "" : "; ", value.empty() ? "none" : value, list);
  return text;
}

class Doctor {
 public:
  explicit Doctor(const Examination& examination) : seen_(examination) {}

  std::vector<Problem> run() {
    for (const Unreachable& one : seen_.unreachable) check_way(one);
    if (!seen_.broken.empty())
      fatal("the members cannot be connected: " + seen_.broken,
            "cure what is named there, or try another --transport");
    check_same();
    for (const auto& [host, member] : hosts_of(seen_)) check_host(*member);
    for (const Examined& one : seen_.members) check_clock(one);
    for (Problem& one : detail::find_network_problems(seen_)) problems_.push_back(std::move(one));
    std::stable_partition(problems_.begin(), problems_.end(), [](auto& one) { return one.fatal; });
    return std::move(problems_);
  }

 private:
  void fatal(std::string what, std::string advice) {
    problems_.push_back({true, std::move(what), std::move(advice)});
  }
  void warn(std::string what, std::string advice) {
    problems_.push_back({false, std::move(what), std::move(advice)});
  }
  const Examined& member(int rank) const { return seen_.members[static_cast<std::size_t>(rank)]; }

  void check_way(const Unreachable& one) {
    fatal(fmt::format("{} cannot reach {}: {}", member(one.from).host, member(one.to).host,
                      one.reason),
          fmt::format("open the ports {}-{} between the hosts, or name another --interface",
                      member(one.to).facts.first_port, member(one.to).facts.last_port));
  }

  void check_same() {
    const std::string versions = differences(seen_, [](auto& facts) { return facts.version; });
    if (!versions.empty())
      fatal("lockstep has different versions: " + versions, "install the same one on all hosts");
    const std::string sets = differences(seen_, [](auto& facts) { return facts.instructions; });
    if (!sets.empty())
      warn("processors have different instruction sets: " + sets,
           "a job uses the best set that all have, and its bits are those of that set");
    const std::string names = differences(seen_, [](auto& facts) { return facts.processor; });
    if (!names.empty() && sets.empty())
      warn("processors differ: " + names, "expect the slowest one's speed");
  }

  void check_host(const Examined& one) {
    const HostFacts& facts = one.facts;
    if (!facts.bad_instructions.empty())
      fatal(fmt::format("{}: kernels with {}", one.host, facts.bad_instructions),
            "LOCKSTEP_ISA, set to a set below it, keeps jobs from using it");
    const std::int64_t members = members_on(seen_, one.host), shm = members * kShmPerMember;
    if (members > 1 && facts.shm_free < shm)
      fatal(
          fmt::format("{}: /dev/shm has {} MB free of {}, {} members need {}", one.host,
                      facts.shm_free / kMegabyte, facts.shm / kMegabyte, members, shm / kMegabyte),
          "mount it larger (mount -o remount,size=1G /dev/shm), or --transport tcp");
    const auto files =
        kFilesOfItsOwn + kFilesPerMember * static_cast<std::int64_t>(seen_.members.size());
    if (facts.open_files < files)
      fatal(fmt::format("{}: a process may open {} files, this job needs {}", one.host,
                        facts.open_files, files),
            fmt::format("ulimit -n {} before the job, or in /etc/security/limits.conf", files));
    check_memory(one, members);
    if (members > facts.machine_cores)
      warn(fmt::format("{}: {} members on {} cores", one.host, members, facts.machine_cores),
           "no more members than cores");
    if (facts.last_port - facts.first_port + 1 < kFewPorts)
      warn(fmt::format("{}: the system deals ports {}-{} only", one.host, facts.first_port,
                       facts.last_port),
           "sysctl net.ipv4.ip_local_port_range='32768 60999'");
  }

  void check_memory(const Examined& one, std::int64_t members) {
    const HostFacts& facts = one.facts;
    if (facts.memory_free >= members * kLeastMemory) return;
    const std::string limit =
        facts.memory_limit == 0
            ? ""
            : fmt::format(", of a control group's limit of {} MB", facts.memory_limit / kMegabyte);
    warn(fmt::format("{}: {} MB of memory are free for {} members{}", one.host,
                     facts.memory_free / kMegabyte, members, limit),
         limit.empty() ? "end other programs, or fewer members there"
                       : "raise the limit (container, Slurm's --mem), or fewer members there");
  }

  void check_clock(const Examined& one) {
    if (std::abs(one.clock_offset) < kMostOffset) return;
    warn(
        fmt::format("{}: its clock is {:.1f} s {} that of {}", one.host, std::abs(one.clock_offset),
                    one.clock_offset > 0 ? "before" : "behind", seen_.members[0].host),
        "run a time service (chrony, systemd-timesyncd) on all hosts");
  }

  const Examination& seen_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> diagnose(const Examination& examination) { return Doctor(examination).run(); }

}  // namespace lockstep::cluster
