// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBetweenLooks{5};

// What the new process does before it is its program, and where that failed.
enum class Step : int { streams, folder, program };

struct Failure {
  Step step;
  int error;
};

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

std::string_view name_of(std::string_view setting) { return setting.substr(0, setting.find('=')); }

// Ours, with `settings` in place of those of the same name; of two of one name the last counts.
std::vector<std::string> environment_with(const std::vector<std::string>& settings) {
  std::vector<std::string> result;
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) result.emplace_back(*one);
  for (const std::string& setting : settings) {
    std::erase_if(result, [&](const auto& old) { return name_of(old) == name_of(setting); });
    result.push_back(setting);
  }
  return result;
}

// All that the new process needs, made before there is one: after the fork of a process with
// threads nothing may be allocated.
struct Prepared {
  Prepared(const std::vector<std::string>& command, const StartOptions& start)
      : options(start),
        settings(environment_with(start.environment)),
        words(pointers(command)),
        variables(pointers(settings)) {}

  const StartOptions& options;
  std::vector<std::string> settings;
  std::vector<char*> words, variables;
  pid_t parent = ::getpid();
};

void join_family(bool own_group, int death_signal, pid_t parent) {
  if (own_group) ::setpgid(0, 0);
  if (death_signal == 0) return;
  ::prctl(PR_SET_PDEATHSIG, death_signal);
  // Gone before that. One that is only to be woken sees it by itself.
  if (::getppid() != parent && death_signal != SIGCONT) ::_exit(127);
}

void set_signals(const StartOptions& options) {
  for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_DFL);
  for (const int number : options.ignored) ::signal(number, SIG_IGN);
  ::sigprocmask(SIG_SETMASK, &options.blocked, nullptr);
}

// First out of the way of the streams' own numbers, which a caller's descriptors may have.
bool set_streams(const StartOptions& options) {
  int ends[3] = {options.input, options.output, options.errors};
  for (int& end : ends) {
    if (end == kNoStream)
      end = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    else if (end == kOurStream)
      continue;
    if ((end = ::fcntl(end, F_DUPFD_CLOEXEC, 3)) < 0) return false;
  }
  for (int number = 0; number < 3; ++number)
    if (ends[number] >= 0 && ::dup2(ends[number], number) != number) return false;
  return true;
}

[[noreturn]] void fail(int report, Step step) {
  const Failure failure{step, errno};
  [[maybe_unused]] const ssize_t written = ::write(report, &failure, sizeof failure);
  ::_exit(127);
}

[[noreturn]] void become(const Prepared& prepared, int report) {
  const StartOptions& options = prepared.options;
  // Out of the way of the streams.
  if (report < 3)
    if (const int moved = ::fcntl(report, F_DUPFD_CLOEXEC, 3); moved >= 0) report = moved;
  join_family(options.own_group, options.death_signal, prepared.parent);
  set_signals(options);
  if (!set_streams(options)) fail(report, Step::streams);
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) fail(report, Step::folder);
  environ = const_cast<char**>(prepared.variables.data());
  ::execvp(prepared.words[0], prepared.words.data());
  fail(report, Step::program);
}

// Nothing when the process became its program, which closes the pipe.
std::optional<Failure> read_failure(int report) {
  Failure failure{};
  ssize_t got = 0;
  while ((got = ::read(report, &failure, sizeof failure)) < 0 && errno == EINTR) continue;
  return got == sizeof failure ? std::optional(failure) : std::nullopt;
}

[[noreturn]] void throw_failure(const Failure& failure, const std::string& program,
                                const std::string& folder) {
  if (failure.step == Step::folder && failure.error == ENOENT)
    throw NotFound("{}: there is no such folder", folder);
  if (failure.step == Step::folder)
    throw IoError("{}: cannot run {} there: {}", folder, program, std::strerror(failure.error));
  if (failure.step == Step::program && failure.error == ENOENT)
    throw NotFound("{}: there is no such program", program);
  throw IoError("{}: cannot be started: {}", program, std::strerror(failure.error));
}

struct ReportPipe {
  explicit ReportPipe(const std::string& program) {
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw IoError("{}: cannot be started: {}", program, std::strerror(errno));
  }
  ~ReportPipe() {
    ::close(ends[0]);
    close_write();
  }
  ReportPipe(const ReportPipe&) = delete;
  ReportPipe& operator=(const ReportPipe&) = delete;
  void close_write() {
    if (ends[1] >= 0) ::close(std::exchange(ends[1], -1));
  }
  int ends[2];
};

void keep_only(int descriptor) {
  ::dup2(descriptor, STDIN_FILENO);
  ::close_range(STDOUT_FILENO, ~0U, 0);
}

[[noreturn]] void do_work(const std::function<int()>& work) {
  try {
    ::_exit(work());
  } catch (...) {
    ::_exit(1);
  }
}

}  // namespace

Process Process::start(const std::vector<std::string>& command, const StartOptions& options) {
  if (command.empty()) throw InvalidArgument("process: no program was named");
  const Prepared prepared(command, options);
  ReportPipe report(command[0]);
  const pid_t pid = ::fork();
  if (pid == 0) become(prepared, report.ends[1]);
  if (pid < 0) throw_failure({Step::streams, errno}, command[0], options.folder);
  Process process(pid, options.own_group);
  report.close_write();
  if (const auto failure = read_failure(report.ends[0]))
    throw_failure(*failure, command[0], options.folder);
  return process;
}

Process Process::fork(const std::function<int()>& work, const ForkOptions& options) {
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid == 0) {
    join_family(options.own_group, options.death_signal, parent);
    if (options.only_descriptor >= 0) keep_only(options.only_descriptor);
    do_work(work);
  }
  if (pid < 0) throw IoError("process: fork: {}", std::strerror(errno));
  if (options.own_group) ::setpgid(pid, pid);  // whoever is first
  return {pid, options.own_group};
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      own_group_(other.own_group_),
      status_(std::exchange(other.status_, std::nullopt)) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(own_group_, other.own_group_);
  std::swap(status_, other.status_);
  return *this;
}

void Process::signal(int number) const {
  if (pid_ > 0 && !status_) ::kill(own_group_ ? -pid_ : pid_, number);
}

std::optional<ExitStatus> Process::status() {
  int raw = 0;
  if (pid_ > 0 && !status_ && ::waitpid(pid_, &raw, WNOHANG) == pid_)
    status_ =
        WIFEXITED(raw) ? ExitStatus{.code = WEXITSTATUS(raw)} : ExitStatus{.signal = WTERMSIG(raw)};
  return status_;
}

std::optional<ExitStatus> Process::wait(std::chrono::milliseconds longest) {
  const Clock::time_point end = Clock::now() + longest;
  while (!status() && Clock::now() < end) std::this_thread::sleep_for(kBetweenLooks);
  return status();
}

void Process::end() {
  if (pid_ <= 0 || status_) return;
  signal(SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  status_ = ExitStatus{.signal = SIGKILL};
}

pid_t Process::release() { return std::exchange(pid_, -1); }

std::filesystem::path program_path() { return std::filesystem::canonical("/proc/self/exe"); }

}  // namespace lockstep
