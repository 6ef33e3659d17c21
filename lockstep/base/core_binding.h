// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// To what the processes of a job on one machine are bound: to nothing; each to its share of the
// cores; each to a memory node, or its share of them.
enum class Binding { none, core, numa };
Binding parse_binding(std::string_view name);  // throws InvalidArgument

// The processors that a process may use: those of each core, cores of one memory node together, and
// those of each memory node.
struct CoreMap {
  std::vector<std::vector<int>> cores = {};
  std::vector<std::vector<int>> nodes = {};
};
// Of the processors in `usable`. Where the system tells nothing, each is a core, and all are a
// node. Tests have a `system` of their own.
CoreMap find_cores(const std::vector<int>& usable,
                   const std::string& system = "/sys/devices/system");

// The processors of process `slot` of `slots` on this machine; empty: it is bound to nothing. More
// processes than there are cores or nodes share them.
std::vector<int> bound_processors(Binding binding, int slot, int slots, const CoreMap& map);

// While it lives, this thread, and what it starts, runs on these processors alone; on all as before
// where there are none. A set that the system refuses changes nothing.
class AffinityScope {
 public:
  explicit AffinityScope(const std::vector<int>& processors);
  ~AffinityScope();
  AffinityScope(const AffinityScope&) = delete;
  AffinityScope& operator=(const AffinityScope&) = delete;

 private:
  std::vector<int> before_;  // empty: nothing was changed
};

}  // namespace lockstep
