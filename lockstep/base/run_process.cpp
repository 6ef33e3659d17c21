// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/process.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBetweenCalls{20};

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

ExitStatus wait_for(Process& process, const std::string& program, const ProcessOptions& options) {
  const Clock::time_point end = Clock::now() + options.deadline;
  std::optional<ExitStatus> status;
  while (!(status = process.wait(kBetweenCalls))) {
    if (Clock::now() >= end)
      throw IoError("{}: was not done after {} s", program,
                    static_cast<double>(options.deadline.count()) / 1000);
    if (options.waiting) options.waiting();
  }
  return *status;
}

}  // namespace

// A group of its own, so that it can be ended with all that it started; told to end when we are
// gone, since Ctrl-C does not reach that group.
ProcessResult run_process(const std::vector<std::string>& command, const ProcessOptions& options) {
  const Capture output;
  const Capture errors;
  StartOptions start;
  start.folder = options.folder;
  start.input = kNoStream;
  start.output = output.fd();
  start.errors = errors.fd();
  start.own_group = true;
  start.death_signal = SIGTERM;
  Process process = Process::start(command, start);
  const ExitStatus status = wait_for(process, command[0], options);
  return {status.shell(), output.text(), errors.text()};
}

}  // namespace lockstep
