// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/detail/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/cluster/detail/adopted.h"
#include "lockstep/cluster/detail/environment.h"
#include "lockstep/cluster/detail/silence.h"

namespace lockstep::cluster::detail {
namespace {

constexpr const char* kMark = "LOCKSTEP_AGENT";

// Holds nothing but its end of the pipe, and no signal but SIGKILL ends it.
void withdraw(int pipe) {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, "keeper");
  ::dup2(pipe, STDIN_FILENO);
  ::close_range(STDOUT_FILENO, ~0U, 0);
}

// False when nobody will say anything any more.
bool await_word(std::chrono::milliseconds longest) {
  Silence silence(longest);
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (::poll(&input, 1, static_cast<int>(Silence::interval(longest).count())) <= 0)
    if (silence.goes_on() && silence.is_too_long()) return false;
  return true;
}

[[noreturn]] void keep(int pipe, pid_t parent, std::chrono::milliseconds longest,
                       const std::string& mark) {
  withdraw(pipe);
  std::set<pid_t> groups;
  pid_t said = 0;
  bool heard = true;
  while ((heard = await_word(longest)) && ::read(STDIN_FILENO, &said, sizeof said) == sizeof said) {
    if (said > 0) groups.insert(said);
    if (said < 0) groups.erase(-said);
  }
  if (!heard && ::getppid() == parent) ::kill(parent, SIGKILL);
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
  end_marked(mark);
  ::_exit(0);
}

// Of this process, and nobody else's: the clock tells those apart that had the same number. Who
// runs inside a job itself keeps that job's mark.
std::string own_mark() {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{}.{}", ::getpid(), now);
}

}  // namespace

Keeper::Keeper(std::chrono::milliseconds silence) : mark_(own_mark()) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw IoError("launch: pipe: {}", std::strerror(errno));
  const comm::Socket theirs(ends[0]);
  pipe_ = comm::Socket(ends[1]);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) keep(theirs.fd(), parent, silence, mark_);
  if (pid_ < 0) throw IoError("launch: fork: {}", std::strerror(errno));
}

std::string Keeper::setting() const {
  const std::string outer = variable(kMark).value_or("");
  return fmt::format("{}={}{}{}", kMark, outer, outer.empty() ? "" : ":", mark_);
}

Keeper::~Keeper() {
  pipe_.close();
  ::waitpid(pid_, nullptr, 0);
}

// Whoever has killed the keeper may have that.
void Keeper::tell(pid_t group) const {
  while (::write(pipe_.fd(), &group, sizeof group) < 0 && errno == EINTR) continue;
}

}  // namespace lockstep::cluster::detail
