// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/doctor/host_facts.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "lockstep/base/machine_limits.h"
#include "lockstep/base/processor.h"
#include "lockstep/base/version.h"
#include "lockstep/cluster/detail/fields.h"

namespace lockstep::cluster {
namespace {

// What is behind the colon of the first line that begins with `name`.
std::string line_of(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

std::string known_instructions() {
  const InstructionSet best = usable_instruction_set(ask_processor());
  std::string text;
  for (InstructionSet set : instruction_sets())
    if (set <= best) text += (text.empty() ? "" : " ") + std::string(to_string(set));
  return text;
}

std::int64_t memory_line(const char* name) {
  std::int64_t kilobytes = 0;
  std::istringstream(line_of("/proc/meminfo", name)) >> kilobytes;
  return kilobytes * 1024;
}

std::int64_t most_open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur > std::uint64_t{INT64_MAX} ? INT64_MAX
                                                   : static_cast<std::int64_t>(limit.rlim_cur);
}

}  // namespace

HostFacts look_at_host() {
  HostFacts facts;
  facts.version = version();
  facts.processor = line_of("/proc/cpuinfo", "model name");
  facts.instructions = known_instructions();
  facts.cores = usable_threads();
  facts.machine_cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  facts.memory = memory_line("MemTotal:");
  facts.memory_free = memory_line("MemAvailable:");
  if (const CgroupLimits limits = cgroup_limits(); limits.memory > 0) {
    facts.memory_limit = limits.memory;
    facts.memory_free = std::min(facts.memory_free, limits.memory_free);
  }
  struct statvfs space {};
  if (::statvfs("/dev/shm", &space) == 0) {
    facts.shm = static_cast<std::int64_t>(space.f_blocks * space.f_frsize);
    facts.shm_free = static_cast<std::int64_t>(space.f_bavail * space.f_frsize);
  }
  facts.open_files = most_open_files();
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> facts.first_port >> facts.last_port;
  return facts;
}

std::string to_bytes(const HostFacts& facts) {
  detail::FieldWriter fields;
  fields.text(facts.version).text(facts.processor).text(facts.instructions);
  fields.text(facts.bad_instructions);
  for (const std::int64_t number :
       {facts.cores, facts.machine_cores, facts.memory, facts.memory_limit, facts.memory_free,
        facts.shm, facts.shm_free, facts.open_files, facts.first_port, facts.last_port})
    fields.number(number);
  return fields.bytes();
}

HostFacts facts_from(const std::string& bytes) {
  detail::FieldReader fields(bytes);
  HostFacts facts;
  for (std::string* text :
       {&facts.version, &facts.processor, &facts.instructions, &facts.bad_instructions})
    *text = fields.text();
  for (std::int64_t* number :
       {&facts.cores, &facts.machine_cores, &facts.memory, &facts.memory_limit, &facts.memory_free,
        &facts.shm, &facts.shm_free, &facts.open_files, &facts.first_port, &facts.last_port})
    *number = fields.number();
  return facts;
}

}  // namespace lockstep::cluster
