// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/machine_limits.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

namespace lockstep {
namespace {

constexpr std::int64_t kMegabyte = 1 << 20;
// Version 1 says "no limit" by a number that no machine has.
constexpr std::int64_t kNoMemory = std::int64_t{1} << 60;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool lists(std::string_view names, std::string_view name) {
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    if (names.substr(begin, end - begin) == name) return true;
    begin = end + 1;
  }
  return false;
}

// A hierarchy of control groups as it is mounted here.
struct Hierarchy {
  bool is_v2 = false;
  std::string place = {};  // the folder that is visible here ...
  std::string root = {};   // ... and the control group that it shows
};

// mountinfo: number, parent, device, root, place, options, ..., "-", type, source, controllers.
std::vector<Hierarchy> find_hierarchies(const KernelFiles& files, const std::string& controller) {
  std::vector<Hierarchy> found;
  std::ifstream lines(files.process + "/mountinfo");
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = words_of(line);
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 5 || words.end() - dash < 4) continue;
    const bool is_v2 = dash[1] == "cgroup2";
    if (is_v2 || (dash[1] == "cgroup" && lists(dash[3], controller)))
      found.push_back({is_v2, files.root + words[4], words[3]});
  }
  return found;
}

// /proc/self/cgroup: "4:memory:/a/b", or "0::/a/b" for version 2.
std::string group_of(const KernelFiles& files, const std::string& controller, bool is_v2) {
  std::ifstream lines(files.process + "/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view names = std::string_view(line).substr(first + 1, second - first - 1);
    if (is_v2 ? names.empty() : lists(names, controller)) return line.substr(second + 1);
  }
  return "/";
}

// The folders of this process's control group and of those above it, as far as they are visible:
// a container may see its own alone.
std::vector<std::string> folders_up(const Hierarchy& hierarchy, std::string group) {
  const std::string& root = hierarchy.root;
  const bool is_inside =
      group == root || (group.starts_with(root) && (root == "/" || group[root.size()] == '/'));
  if (!is_inside || group.starts_with("/..")) group.clear();
  if (is_inside && root != "/") group.erase(0, root.size());
  std::vector<std::string> folders;
  while (group.size() > 1) {
    folders.push_back(hierarchy.place + group);
    const std::size_t last = group.rfind('/');
    group.resize(last == std::string::npos ? 0 : last);
  }
  folders.push_back(hierarchy.place);
  return folders;
}

template <class F>
void for_each_folder(const KernelFiles& files, const std::string& controller, F&& visit) {
  for (const Hierarchy& one : find_hierarchies(files, controller))
    for (const std::string& folder : folders_up(one, group_of(files, controller, one.is_v2)))
      visit(folder, one.is_v2);
}

// The first number of a file; nothing for "max" or a file that is not there.
std::optional<std::int64_t> number_in(const std::string& path) {
  std::int64_t value = 0;
  std::ifstream file(path);
  return file >> value ? std::optional(value) : std::nullopt;
}

// Of a file of names and numbers.
std::optional<std::int64_t> number_of(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  for (std::int64_t value = 0; file >> word >> value;)
    if (word == name) return value;
  return std::nullopt;
}

double quota_of(const std::string& folder, bool is_v2) {
  std::int64_t quota = 0, period = 0;
  if (is_v2) {
    std::ifstream(folder + "/cpu.max") >> quota >> period;
  } else {
    quota = number_in(folder + "/cpu.cfs_quota_us").value_or(0);
    period = number_in(folder + "/cpu.cfs_period_us").value_or(0);
  }
  return quota > 0 && period > 0 ? static_cast<double>(quota) / static_cast<double>(period) : 0;
}

void take_memory(CgroupLimits& limits, const std::string& folder, bool is_v2) {
  const auto limit = number_in(folder + (is_v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  if (!limit || *limit >= kNoMemory) return;
  const auto used = number_in(folder + (is_v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  const auto cache =
      number_of(folder + "/memory.stat", is_v2 ? "inactive_file" : "total_inactive_file");
  const std::int64_t free =
      std::clamp<std::int64_t>(*limit - used.value_or(0) + cache.value_or(0), 0, *limit);
  limits.memory_free = limits.memory == 0 ? free : std::min(limits.memory_free, free);
  limits.memory = limits.memory == 0 ? *limit : std::min(limits.memory, *limit);
}

}  // namespace

CgroupLimits cgroup_limits(const KernelFiles& files) {
  CgroupLimits limits;
  for_each_folder(files, "cpu", [&](const std::string& folder, bool is_v2) {
    const double cores = quota_of(folder, is_v2);
    if (cores > 0) limits.cores = limits.cores > 0 ? std::min(limits.cores, cores) : cores;
  });
  for_each_folder(files, "memory", [&](const std::string& folder, bool is_v2) {
    take_memory(limits, folder, is_v2);
  });
  for_each_folder(files, "pids", [&](const std::string& folder, bool) {
    const auto most = number_in(folder + "/pids.max"), there = number_in(folder + "/pids.current");
    if (!most) return;
    const std::int64_t free = std::max<std::int64_t>(*most - there.value_or(0), 0);
    limits.tasks_free = limits.tasks_free < 0 ? free : std::min(limits.tasks_free, free);
  });
  return limits;
}

int usable_threads(const KernelFiles& files) {
  return fair_threads({usable_cores()}, 0, cgroup_limits(files).cores);
}

// A machine may have more cores than a cpu_set_t: then the kernel asks for a larger one.
std::vector<int> usable_cores() {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  std::vector<int> cores;
  for (std::size_t count = CPU_SETSIZE; cores.empty() && count <= kMost; count *= 2) {
    std::vector<cpu_set_t> sets(count / CPU_SETSIZE);
    const std::size_t bytes = sets.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, sets.data()) != 0) continue;
    for (std::size_t core = 0; core < count; ++core)
      if (CPU_ISSET_S(core, bytes, sets.data())) cores.push_back(static_cast<int>(core));
  }
  return cores;
}

int fair_threads(const std::vector<std::vector<int>>& processes, std::size_t self, double quota) {
  constexpr double kRounding = 1e-9, kMost = 1e6;
  std::map<int, int> users;
  for (const std::vector<int>& cores : processes)
    for (const int core : cores) ++users[core];
  double share = kRounding;
  for (const int core : processes[self]) share += 1.0 / users[core];
  const double most = quota > 0 ? std::ceil(quota / static_cast<double>(processes.size())) : kMost;
  return std::max(1, static_cast<int>(std::min({share, most, kMost})));
}

std::optional<std::int64_t> count_memory_kills(const KernelFiles& files) {
  std::optional<std::int64_t> kills;
  for (const Hierarchy& one : find_hierarchies(files, "memory")) {
    const std::string folder = folders_up(one, group_of(files, "memory", one.is_v2)).front();
    const auto count =
        number_of(folder + (one.is_v2 ? "/memory.events" : "/memory.oom_control"), "oom_kill");
    if (count) kills = kills.value_or(0) + *count;
  }
  return kills;
}

std::string memory_limits_text(const KernelFiles& files) {
  std::string text;
  if (const std::int64_t memory = cgroup_limits(files).memory; memory > 0)
    text = fmt::format("the control group's limit is {} MB", memory / kMegabyte);
  const auto add = [&](int resource, const char* name) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
      text += fmt::format("{}{} is {} MB", text.empty() ? "" : "; ", name,
                          limit.rlim_cur / static_cast<rlim_t>(kMegabyte));
  };
  add(RLIMIT_AS, "ulimit -v");
  add(RLIMIT_DATA, "ulimit -d");
  return text;
}

}  // namespace lockstep
