// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/reaper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/cluster/detail/environment.h"
#include "lockstep/cluster/detail/heartbeat.h"
#include "lockstep/cluster/launch/detail/orphans.h"
#include "lockstep/cluster/launch/detail/process_title.h"

namespace lockstep::cluster::detail {
namespace {

constexpr const char* kMark = "LOCKSTEP_AGENT";
constexpr std::chrono::minutes kFarewell{1};  // to end what is left, and remove its files

namespace fs = std::filesystem;

// Processes have their numbers in a namespace of their own.
std::string folder_prefix() {
  struct stat numbers {};
  ::stat("/proc/self/ns/pid", &numbers);
  return fmt::format("lockstep-{}.", numbers.st_ino);
}

// Made by the workers that need it. Memory, so that what is in it is shared like memory.
std::string scratch_folder(const std::string& mark) { return "/dev/shm/" + folder_prefix() + mark; }

// Of jobs of which everybody was killed, the reaper too.
void remove_stale_folders() {
  const std::string prefix = folder_prefix();
  std::error_code error;
  std::vector<fs::path> stale;
  for (fs::directory_iterator entry("/dev/shm", error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    struct stat facts {};
    if (!name.starts_with(prefix) || ::lstat(entry->path().c_str(), &facts) != 0) continue;
    const pid_t agent = std::atoi(name.c_str() + prefix.size());
    const bool is_ours = agent > 0 && facts.st_uid == ::geteuid();
    if (is_ours && is_gone(agent)) stale.push_back(entry->path());
  }
  for (const fs::path& path : stale) fs::remove_all(path, error);
}

// No signal but SIGKILL ends it.
void withdraw() {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  set_process_title("lockstep-reaper", "lockstep reaper");
}

// False when nobody will say anything any more.
bool await_heartbeat(std::chrono::milliseconds longest) {
  HeartbeatMonitor parent(longest);
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (::poll(&input, 1, static_cast<int>(HeartbeatMonitor::interval(longest).count())) <= 0)
    if (parent.tick() && parent.is_late()) return false;
  return true;
}

int reap(pid_t parent, std::chrono::milliseconds longest, const std::string& mark,
         std::set<pid_t> groups) {
  withdraw();
  pid_t said = 0;
  bool heard = true;
  while ((heard = await_heartbeat(longest)) &&
         ::read(STDIN_FILENO, &said, sizeof said) == sizeof said) {
    if (said > 0) groups.insert(said);
    if (said < 0) groups.erase(-said);
  }
  if (!heard && ::getppid() == parent) ::kill(parent, SIGKILL);
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  kill_marked(mark);
  std::error_code ignored;
  fs::remove_all(scratch_folder(mark), ignored);
  return 0;
}

// Of this process, and nobody else's: the clock tells those apart that had the same number. Who
// runs inside a job itself keeps that job's mark.
std::string own_mark() {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}.{}", ::getpid(), now);
}

std::string how_it_ended(const ExitStatus& status) {
  return status.signal != 0 ? fmt::format("was ended by signal {}", status.signal)
                            : fmt::format("ended with status {}", status.code);
}

}  // namespace

Reaper::Reaper(std::chrono::milliseconds deadline) : deadline_(deadline), mark_(own_mark()) {
  remove_stale_folders();
  start();
}

void Reaper::start() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw IoError("launch: pipe: {}", std::strerror(errno));
  const comm::Socket theirs(ends[0]);
  pipe_ = comm::Socket(ends[1]);
  // It holds nothing but its end of the pipe. Whoever has stopped it does not keep it from its
  // work: the parent's end wakes it.
  process_ =
      Process::fork([this, parent = ::getpid()] { return reap(parent, deadline_, mark_, groups_); },
                    {.own_group = true, .death_signal = SIGCONT, .only_descriptor = theirs.fd()});
}

std::optional<std::string> Reaper::replace_if_dead() {
  const std::optional<ExitStatus> status = process_.status();
  if (!status) return {};
  start();
  return how_it_ended(*status);
}

std::vector<std::string> Reaper::settings() const {
  const std::string outer = variable(kMark).value_or("");
  return {fmt::format("{}={}{}{}", kMark, outer, outer.empty() ? "" : ":", mark_),
          "LOCKSTEP_SCRATCH=" + scratch_folder(mark_)};
}

Reaper::~Reaper() {
  pipe_.close();
  process_.signal(SIGCONT);  // where somebody has stopped it
  process_.wait(kFarewell);
}

void Reaper::add(pid_t group) {
  groups_.insert(group);
  tell(group);
}

void Reaper::remove(pid_t group) {
  groups_.erase(group);
  tell(-group);
}

// Where it was killed, a new one is told all.
void Reaper::tell(pid_t group) const {
  while (::write(pipe_.fd(), &group, sizeof group) < 0 && errno == EINTR) continue;
}

}  // namespace lockstep::cluster::detail
