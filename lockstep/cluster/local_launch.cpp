// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/local_launch.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>

#include "lockstep/base/error.h"

namespace lockstep::cluster {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kKeptLines = 5;
constexpr int kLookEveryMs = 100;

// While it lives, the signals that a launcher handles arrive by a file descriptor.
class SignalQueue {
 public:
  SignalQueue() {
    sigset_t handled;
    sigemptyset(&handled);
    for (int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&handled, number);
    sigprocmask(SIG_BLOCK, &handled, &before_);
    fd_ = signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd_ < 0) throw IoError("launch: signalfd: {}", std::strerror(errno));
  }
  ~SignalQueue() {
    close(fd_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return fd_; }
  const sigset_t& mask_before() const { return before_; }
  std::optional<int> next() const {
    signalfd_siginfo info;
    if (read(fd_, &info, sizeof info) != sizeof info) return {};
    return static_cast<int>(info.ssi_signo);
  }

 private:
  sigset_t before_;
  int fd_ = -1;
};

struct Worker {
  int rank = 0;
  pid_t pid = -1;
  int output = -1;  // what it says; -1: straight to us
  bool running = true;
  std::string unfinished = {};
  std::deque<std::string> lines = {};
};

[[noreturn]] void become(const std::vector<std::string>& command, const sigset_t& mask, int output,
                         pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // gone before that
  setpgid(0, 0);  // the terminal's Ctrl-C comes to the launcher alone, which passes it on once
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  if (output >= 0) {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
  }
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  fmt::print(stderr, "launch: {}: {}\n", command[0], std::strerror(errno));
  _exit(127);
}

class Launcher {
 public:
  explicit Launcher(const LocalLaunch& launch) : launch_(launch) {}
  ~Launcher() {
    kill_all(SIGKILL);
    for (Worker& worker : workers_) {
      if (worker.running) waitpid(worker.pid, nullptr, 0);
      if (worker.output >= 0) close(worker.output);
    }
  }

  std::vector<WorkerEnd> run() {
    for (int rank = 0; rank < launch_.workers; ++rank) start(rank);
    while (std::any_of(workers_.begin(), workers_.end(), [](auto& w) { return w.running; })) {
      wait_a_little();
      while (const std::optional<int> number = signals_.next())
        if (*number != SIGCHLD) kill_all(*number);
      for (Worker& worker : workers_) pass_lines(worker);
      for (Worker& worker : workers_) reap(worker);
      if (deadline_ && Clock::now() > *deadline_) kill_all(SIGKILL);
    }
    return std::move(ends_);
  }

 private:
  void start(int rank) {
    int pipe_ends[2] = {-1, -1};
    if (rank > 0 && pipe2(pipe_ends, O_CLOEXEC) != 0)
      throw IoError("launch: pipe: {}", std::strerror(errno));
    const std::vector<std::string> command = launch_.command(rank);
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) become(command, signals_.mask_before(), pipe_ends[1], parent);
    if (pipe_ends[1] >= 0) close(pipe_ends[1]);
    if (pid < 0) {
      if (pipe_ends[0] >= 0) close(pipe_ends[0]);
      throw IoError("launch: worker {} cannot be started: {}", rank, std::strerror(errno));
    }
    if (pipe_ends[0] >= 0) fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK);
    workers_.push_back({rank, pid, pipe_ends[0]});
  }

  void wait_a_little() const {
    std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}};
    for (const Worker& worker : workers_)
      if (worker.output >= 0) watched.push_back({worker.output, POLLIN, 0});
    poll(watched.data(), watched.size(), kLookEveryMs);
  }

  static void pass_lines(Worker& worker) {
    char bytes[4096];
    while (worker.output >= 0) {
      const ssize_t count = read(worker.output, bytes, sizeof bytes);
      if (count > 0) {
        worker.unfinished.append(bytes, static_cast<std::size_t>(count));
        continue;
      }
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
      close(worker.output);
      worker.output = -1;
      if (!worker.unfinished.empty()) worker.unfinished += '\n';
    }
    for (std::size_t end; (end = worker.unfinished.find('\n')) != std::string::npos;) {
      const std::string line = worker.unfinished.substr(0, end);
      worker.unfinished.erase(0, end + 1);
      fmt::print(stderr, "[{}] {}\n", worker.rank, line);
      worker.lines.push_back(line);
      if (worker.lines.size() > kKeptLines) worker.lines.pop_front();
    }
  }

  void reap(Worker& worker) {
    int status = 0;
    if (!worker.running || waitpid(worker.pid, &status, WNOHANG) != worker.pid) return;
    worker.running = false;
    pass_lines(worker);
    WorkerEnd end{worker.rank, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                  WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    for (const std::string& line : worker.lines) end.last_lines += line + "\n";
    if (!end.is_good() && !deadline_) deadline_ = Clock::now() + launch_.grace;
    ends_.push_back(std::move(end));
  }

  void kill_all(int number) {
    for (const Worker& worker : workers_)
      if (worker.running) kill(worker.pid, number);
  }

  const LocalLaunch& launch_;
  const SignalQueue signals_;
  std::vector<Worker> workers_;
  std::vector<WorkerEnd> ends_;
  std::optional<Clock::time_point> deadline_;
};

}  // namespace

std::string WorkerEnd::str() const {
  if (signal != 0)
    return fmt::format("worker {} was ended by signal {} ({})", rank, signal, strsignal(signal));
  return fmt::format("worker {} ended with status {}", rank, status);
}

std::vector<WorkerEnd> launch_local(const LocalLaunch& launch) { return Launcher(launch).run(); }

}  // namespace lockstep::cluster
