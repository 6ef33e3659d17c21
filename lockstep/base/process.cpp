// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

// What a process writes, kept in memory: a pipe would have to be emptied all the while.
class Capture {
 public:
  Capture() : fd_(::memfd_create("lockstep", MFD_CLOEXEC)) {
    if (fd_ < 0) throw IoError("process: cannot keep its output: {}", std::strerror(errno));
  }
  ~Capture() { ::close(fd_); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  int fd() const { return fd_; }
  std::string text() const {
    std::string result;
    char block[4096];
    ssize_t count = 0;
    while ((count = ::pread(fd_, block, sizeof block, static_cast<off_t>(result.size()))) > 0)
      result.append(block, static_cast<std::size_t>(count));
    return result;
  }

 private:
  int fd_;
};

struct Streams {
  int output, errors;
};

// In the child, where nothing may be allocated. A group of its own, so that it can be ended with
// all that it started; told to end when we are gone, since Ctrl-C does not reach that group. It
// hears signals that the caller's threads do not, and ends when nobody reads what it writes.
[[noreturn]] void become(char* const* arguments, const char* folder, Streams streams, int report,
                         pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);  // gone before that
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (::dup2(nothing, 0) == 0 && ::dup2(streams.output, 1) == 1 && ::dup2(streams.errors, 2) == 2 &&
      ::chdir(folder) == 0)
    ::execvp(arguments[0], arguments);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &error, sizeof error);
  ::_exit(127);
}

// What the child says when it cannot become the program; 0 when it did.
int failure_of(int report) {
  int error = 0;
  ssize_t count = -1;
  while ((count = ::read(report, &error, sizeof error)) < 0 && errno == EINTR) continue;
  return count == sizeof error ? error : 0;
}

pid_t spawn(const std::vector<std::string>& command, const std::string& folder, Streams streams) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0)
    throw IoError("{}: cannot be started: {}", command[0], std::strerror(errno));
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid == 0) become(arguments.data(), folder.c_str(), streams, report[1], parent);
  const int error = pid < 0 ? errno : (::close(report[1]), failure_of(report[0]));
  if (pid < 0) ::close(report[1]);
  ::close(report[0]);
  if (error == 0) return pid;
  if (pid > 0) ::waitpid(pid, nullptr, 0);
  if (error == ENOENT) throw NotFound("{}: there is no such program", command[0]);
  throw IoError("{}: cannot be started: {}", command[0], std::strerror(error));
}

// A process that, with what it started, does not outlive this object.
class Running {
 public:
  explicit Running(pid_t pid) : pid_(pid) {}
  ~Running() {
    if (pid_ < 0) return;
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  std::optional<int> status() {
    int raw = 0;
    if (::waitpid(pid_, &raw, WNOHANG) != pid_) return std::nullopt;
    pid_ = -1;
    return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
  }

 private:
  pid_t pid_;
};

int wait_for(Running& process, const std::string& program, const ProcessOptions& options) {
  const Clock::time_point end = Clock::now() + options.deadline;
  std::optional<int> status;
  while (!(status = process.status())) {
    if (Clock::now() >= end)
      throw IoError("{}: was not done after {} s", program,
                    static_cast<double>(options.deadline.count()) / 1000);
    if (options.waiting) options.waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return *status;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& command, const ProcessOptions& options) {
  if (command.empty()) throw InvalidArgument("process: no program was named");
  if (::access(options.folder.c_str(), X_OK) != 0)
    throw NotFound("{}: cannot run {} there: {}", options.folder, command[0], std::strerror(errno));
  const Capture output;
  const Capture errors;
  Running process(spawn(command, options.folder, {output.fd(), errors.fd()}));
  const int status = wait_for(process, command[0], options);
  return {status, output.text(), errors.text()};
}

}  // namespace lockstep
