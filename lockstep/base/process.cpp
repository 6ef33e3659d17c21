// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
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

class FileActions {
 public:
  FileActions(const std::string& folder, int output, int errors) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, 1);
    posix_spawn_file_actions_adddup2(&actions_, errors, 2);
    posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
  }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

pid_t spawn(const std::vector<std::string>& command, const FileActions& actions) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int error =
      posix_spawnp(&pid, arguments[0], actions.get(), nullptr, arguments.data(), environ);
  if (error == ENOENT) throw NotFound("{}: there is no such program", command[0]);
  if (error != 0) throw IoError("{}: cannot be started: {}", command[0], std::strerror(error));
  return pid;
}

// A process that does not outlive this object.
class Running {
 public:
  explicit Running(pid_t pid) : pid_(pid) {}
  ~Running() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
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
  Running process(spawn(command, FileActions(options.folder, output.fd(), errors.fd())));
  const int status = wait_for(process, command[0], options);
  return {status, output.text(), errors.text()};
}

}  // namespace lockstep
