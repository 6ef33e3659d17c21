// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/host_facts.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "lockstep/base/version.h"
#include "lockstep/cluster/detail/fields.h"

namespace lockstep::cluster {
namespace {

// By the kernel's names of them.
constexpr std::array<std::pair<const char*, const char*>, 4> kInstructions{
    {{"avx2", "avx2"}, {"avx512f", "avx512"}, {"avx512_bf16", "bf16"}, {"amx_bf16", "amx"}}};

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
  std::istringstream words(line_of("/proc/cpuinfo", "flags"));
  std::set<std::string> flags;
  for (std::string word; words >> word;) flags.insert(word);
  std::string text;
  for (const auto& [flag, name] : kInstructions)
    if (flags.contains(flag)) text += (text.empty() ? "" : " ") + std::string(name);
  return text;
}

std::int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
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
  facts.cores = usable_cores();
  facts.machine_cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  facts.memory = memory_line("MemTotal:");
  facts.memory_free = memory_line("MemAvailable:");
  struct statvfs room {};
  if (::statvfs("/dev/shm", &room) == 0) {
    facts.shm = static_cast<std::int64_t>(room.f_blocks * room.f_frsize);
    facts.shm_free = static_cast<std::int64_t>(room.f_bavail * room.f_frsize);
  }
  facts.open_files = most_open_files();
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> facts.first_port >> facts.last_port;
  return facts;
}

std::string to_bytes(const HostFacts& facts) {
  detail::FieldWriter fields;
  fields.text(facts.version).text(facts.processor).text(facts.instructions);
  for (const std::int64_t number :
       {facts.cores, facts.machine_cores, facts.memory, facts.memory_free, facts.shm,
        facts.shm_free, facts.open_files, facts.first_port, facts.last_port})
    fields.number(number);
  return fields.bytes();
}

HostFacts facts_from(const std::string& bytes) {
  detail::FieldReader fields(bytes);
  HostFacts facts;
  for (std::string* text : {&facts.version, &facts.processor, &facts.instructions})
    *text = fields.text();
  for (std::int64_t* number :
       {&facts.cores, &facts.machine_cores, &facts.memory, &facts.memory_free, &facts.shm,
        &facts.shm_free, &facts.open_files, &facts.first_port, &facts.last_port})
    *number = fields.number();
  return facts;
}

}  // namespace lockstep::cluster
