// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// Where the kernel tells what a process may use. Tests have files of their own.
struct KernelFiles {
  std::string process = "/proc/self";  // has cgroup and mountinfo
  std::string root = {};               // before every mount point
};

// The strictest of the control groups that this process is in, all the way up.
struct CgroupLimits {
  double cores = 0;              // of CPU time; 0: no limit
  std::int64_t memory = 0;       // bytes; 0: no limit
  std::int64_t memory_free = 0;  // of them: what is neither used nor a cache that can go
  std::int64_t tasks_free = -1;  // processes and threads that may still be started; -1: no limit
};
CgroupLimits cgroup_limits(const KernelFiles& files = {});

// How many threads can run at once: the cores of this thread's affinity (taskset, mpirun's binding,
// Slurm's cpusets), and no more than the control groups' quota of CPU time, rounded up (containers,
// Kubernetes). At least 1.
int usable_threads(const KernelFiles& files = {});

// The numbers of the cores of this thread's affinity.
std::vector<int> usable_cores();
// The threads that process `self` of several on one machine gets, each with the cores it may use: a
// core is shared by those that may use it, and so is a quota of CPU time (0: none). At least 1.
int fair_threads(const std::vector<std::vector<int>>& processes, std::size_t self, double quota);

// How many processes of this one's control group the kernel has ended since it was made because
// memory ran out; nothing where the kernel does not say.
std::optional<std::int64_t> count_memory_kills(const KernelFiles& files = {});

// "the control group's limit is 512 MB", "ulimit -v is 800 MB" and "ulimit -d is 600 MB", as far as
// there are limits; else empty.
std::string memory_limits_text(const KernelFiles& files = {});

}  // namespace lockstep
