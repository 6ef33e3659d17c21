// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/process_limits.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "lockstep/base/machine_limits.h"
#include "lockstep/cluster/launch/hosts.h"

namespace lockstep::cluster::detail {
namespace {

// A worker has at least itself and five threads; its agent keeps two of its pipes.
constexpr std::int64_t kTasksOfWorker = 6, kFilesOfWorker = 2, kFilesOfAgent = 32;

std::int64_t soft_limit(int resource) {
  rlimit limit{};
  const bool known = ::getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0;
  const auto most = std::numeric_limits<std::int64_t>::max();
  return !known || limit.rlim_cur > static_cast<rlim_t>(most)
             ? most
             : static_cast<std::int64_t>(limit.rlim_cur);
}

void take(ProcessLimits& limits, std::int64_t free, const std::string& by) {
  if (free >= limits.processes) return;
  limits.processes = std::max<std::int64_t>(free, 0);
  limits.processes_by = by;
}

// "0.5 0.4 0.3 2/345 12345": of all tasks 345 are there.
std::int64_t tasks_there() {
  std::ifstream file("/proc/loadavg");
  std::string word, tasks;
  file >> word >> word >> word >> tasks;
  const std::size_t slash = tasks.find('/');
  std::int64_t count = 0;
  if (slash != std::string::npos) std::istringstream(tasks.substr(slash + 1)) >> count;
  return count;
}

std::int64_t number_in(const char* path) {
  std::int64_t value = std::numeric_limits<std::int64_t>::max();
  std::ifstream file(path);
  return file >> value ? value : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

ProcessLimits find_process_limits() {
  ProcessLimits limits;
  limits.open_files = soft_limit(RLIMIT_NOFILE);
  if (::geteuid() != 0)  // whom it does not bind
    take(limits, soft_limit(RLIMIT_NPROC), "ulimit -u");
  if (const auto tasks = cgroup_limits().tasks_free; tasks >= 0)
    take(limits, tasks, "the control group's pids.max");
  const std::int64_t there = tasks_there();
  take(limits, number_in("/proc/sys/kernel/pid_max") - there, "kernel.pid_max");
  take(limits, number_in("/proc/sys/kernel/threads-max") - there, "kernel.threads-max");
  return limits;
}

std::string why_too_many(std::int64_t workers, const ProcessLimits& limits) {
  if (workers > kMostSlots)
    return fmt::format("{} workers on one machine, expected at most {}", workers, kMostSlots);
  const std::int64_t files = kFilesOfAgent + kFilesOfWorker * workers;
  if (files > limits.open_files)
    return fmt::format("{} workers on this machine take {} open files, ulimit -n allows {}",
                       workers, files, limits.open_files);
  const std::int64_t tasks = kTasksOfWorker * workers;
  if (tasks > limits.processes)
    return fmt::format("{} workers on this machine take {} processes and threads, {} leaves {}",
                       workers, tasks, limits.processes_by, limits.processes);
  return {};
}

}  // namespace lockstep::cluster::detail
