// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/core_binding.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/base/machine_limits.h"

namespace lockstep {
namespace {

constexpr int kMostNodes = 1024;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "0-3,8,10-11"; what makes no sense ends it.
std::vector<int> parse_list(const std::string& text) {
  std::vector<int> numbers;
  const char* at = text.c_str();
  while (*at != '\0') {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    if (end == at) break;
    long last = first;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    for (long number = first; number <= last; ++number) numbers.push_back(static_cast<int>(number));
    at = *end == ',' ? end + 1 : end;
    if (*end != ',') break;
  }
  return numbers;
}

// Threads of one core have the same siblings.
std::string siblings_of(int processor, const std::string& system) {
  return first_line(fmt::format("{}/cpu/cpu{}/topology/thread_siblings_list", system, processor));
}

std::vector<std::vector<int>> nodes_of(const std::vector<int>& usable, const std::string& system) {
  std::vector<std::vector<int>> nodes;
  std::vector<int> left = usable;
  for (int number : parse_list(first_line(system + "/node/online"))) {
    if (number >= kMostNodes) break;
    std::vector<int> own;
    for (const int one :
         parse_list(first_line(fmt::format("{}/node/node{}/cpulist", system, number))))
      if (std::erase(left, one) > 0) own.push_back(one);
    if (!own.empty()) nodes.push_back(std::move(own));
  }
  if (!left.empty()) nodes.push_back(std::move(left));
  return nodes;
}

cpu_set_t set_of(const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int one : processors)
    if (one >= 0 && one < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(one), &set);
  return set;
}

}  // namespace

Binding parse_binding(std::string_view name) {
  if (name.empty() || name == "none") return Binding::none;
  if (name == "core") return Binding::core;
  if (name == "numa") return Binding::numa;
  throw InvalidArgument("bind '{}': expected none, core or numa", name);
}

CoreMap find_cores(const std::vector<int>& usable, const std::string& system) {
  CoreMap map;
  map.nodes = nodes_of(usable, system);
  for (const std::vector<int>& node : map.nodes) {
    std::map<std::string, std::size_t> place;  // by siblings
    for (const int one : node) {
      const std::string siblings = siblings_of(one, system);
      const auto found = siblings.empty() ? place.end() : place.find(siblings);
      if (found != place.end()) {
        map.cores[found->second].push_back(one);
        continue;
      }
      if (!siblings.empty()) place.emplace(siblings, map.cores.size());
      map.cores.push_back({one});
    }
  }
  return map;
}

std::vector<int> bound_processors(Binding binding, int slot, int slots, const CoreMap& map) {
  if (binding == Binding::none || slots < 1) return {};
  const auto& groups = binding == Binding::core ? map.cores : map.nodes;
  const auto count = static_cast<int>(groups.size());
  const int begin = slot * count / slots;
  const int end = std::max(begin + 1, (slot + 1) * count / slots);
  std::vector<int> processors;
  for (int i = begin; i < std::min(end, count); ++i) {
    const std::vector<int>& group = groups[static_cast<std::size_t>(i)];
    processors.insert(processors.end(), group.begin(), group.end());
  }
  std::sort(processors.begin(), processors.end());
  return processors;
}

AffinityScope::AffinityScope(const std::vector<int>& processors) {
  if (processors.empty()) return;
  const std::vector<int> before = usable_cores();
  const cpu_set_t set = set_of(processors);
  if (::sched_setaffinity(0, sizeof set, &set) == 0) before_ = before;
}

AffinityScope::~AffinityScope() {
  if (before_.empty()) return;
  const cpu_set_t set = set_of(before_);
  ::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace lockstep
