// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/agent.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <exception>
#include <filesystem>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/version.h"
#include "lockstep/cluster/detail/environment.h"
#include "lockstep/cluster/detail/heartbeat.h"
#include "lockstep/cluster/launch/detail/children.h"
#include "lockstep/cluster/launch/detail/frames.h"
#include "lockstep/cluster/launch/detail/process_title.h"
#include "lockstep/cluster/launch/detail/signal_queue.h"

namespace lockstep::cluster {
namespace {

// The launcher went away.
struct ConnectionClosed {};
// It may still be there, but is not heard.
struct HeartbeatMissed {};

// Whoever ends a session ends those in it one after the other: the launcher's connection may be
// gone before our own signal is here.
constexpr int kSignalTimeMs = 100;
// The launcher ends workers that do not stop; it has the first word.
constexpr auto kMoreTime = std::chrono::seconds(1);

bool asks_to_stop(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

// As sshd says it: "client port server port".
std::string launcher_address() {
  const std::string connection = detail::variable("SSH_CONNECTION").value_or("");
  return connection.substr(0, connection.find(' '));
}

// The program `lockstep` is found where the agent itself is, unless the PATH has another.
std::string search_path() {
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe");
  return detail::variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin") + ":" +
         own.parent_path().string();
}

void print(const std::string& line) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

class Agent {
 public:
  explicit Agent(const AgentOptions& options)
      : options_(options),
        launcher_heartbeat_(detail::heartbeat_deadline(options.timeout)),
        children_({[this](std::int64_t id, int stream, std::string_view bytes) {
                     say(detail::ProcessOutput{id, stream, std::string(bytes)});
                   },
                   [this](const detail::ChildEnd& end) {
                     say(detail::ProcessEnd{end.id, end.pid, end.status, end.signal, end.by_us,
                                            end.by_kernel});
                   }},
                  detail::heartbeat_deadline(options.timeout)) {
    ::fcntl(options.output, F_SETFL, O_NONBLOCK);
  }

  // Until the launcher goes. Workers that were asked to stop by then may do so.
  void run() {
    try {
      serve();
    } catch (const ConnectionClosed&) {
      // The workers may outlive it.
    }
    leave_last_words();
    is_gone_ = true;
    pollfd asked{signals_.fd(), POLLIN, 0};
    if (!stop_by_) ::poll(&asked, 1, kSignalTimeMs);
    check_signals();
    if (outlives_launcher_ && !stop_by_) serve_alone();
    while (stop_by_ && comm::Clock::now() < *stop_by_ && children_.are_running()) {
      wait();
      children_.advance();
      children_.beat();
    }
  }

 private:
  // A launcher that is not heard may be held up, and is served again when it is.
  void serve() {
    write(detail::kAgentMark);
    say(detail::AgentHello{std::string(version()), launcher_address()});
    while (is_heard_ || children_.are_running()) {
      check_signals();
      wait();
      listen();
      children_.advance();
      look_after_workers();
      if (live()) say(detail::Alive{});
    }
  }

  // All have ended while the launcher was not heard: it may read how when it goes on. Where what
  // was said before is not read yet, there is room when it is.
  void leave_last_words() {
    if (is_heard_) return;
    const auto until = comm::Clock::now() + detail::heartbeat_deadline(options_.timeout);
    while (!unsent_.empty() && comm::Clock::now() < until) {
      const ssize_t written = ::write(options_.output, unsent_.data(), unsent_.size());
      if (written < 0 && errno != EAGAIN && errno != EINTR) return;
      if (written > 0) unsent_.erase(0, static_cast<std::size_t>(written));
      pollfd room{options_.output, POLLOUT, 0};
      if (!unsent_.empty()) ::poll(&room, 1, kSignalTimeMs);
    }
  }

  // The job goes on without a launcher: its workers have each other, and somewhere to write. Nobody
  // waits for the end of our streams, those of ssh among them.
  void serve_alone() {
    const comm::Socket nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int stream :
         {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, options_.input, options_.output})
      ::dup2(nothing.fd(), stream);
    while (children_.are_running()) {
      check_signals();
      wait();
      children_.advance();
      look_after_workers();
      children_.beat();
    }
  }

  void check_signals() {
    await_signals();
    for (; !unsaid_.empty(); unsaid_.pop_front()) say(detail::SignalFrame{unsaid_.front()});
  }

  // Whoever is asked to stop is asked once, by us or by the launcher: two signals may mean more.
  void pass_on(int signal) {
    const bool is_stop = asks_to_stop(signal);
    if (is_stop && stop_by_) return;
    if (is_stop) stop_by_ = comm::Clock::now() + options_.grace;
    if (signal == SIGKILL) children_.end_stopped();  // it is they whom the others wait for
    children_.signal(signal);
  }

  void look_after_workers() {
    if (is_over_) children_.end_stopped();
    children_.end_long_stopped();
    // A launcher that hangs does not end them.
    if (stop_by_ && comm::Clock::now() > *stop_by_ + kMoreTime) children_.signal(SIGKILL);
    if (const auto how = children_.check_reaper())
      print(fmt::format("lockstep: the reaper beside the agent {}; there is another one\n", *how));
  }

  void wait() const {
    std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}};
    if (!is_gone_) watched.push_back({options_.input, POLLIN, 0});
    children_.watch(watched);
    ::poll(watched.data(), watched.size(), is_gone_ ? kSignalTimeMs : 1000);
  }

  // Whenever the others expect a word from us. Throws HeartbeatMissed when none came from the
  // launcher, and the workers end with it.
  bool live() {
    if (!launcher_heartbeat_.tick()) return false;
    if (launcher_heartbeat_.is_late() && !options_.has_terminal) {
      if (!outlives_launcher_) throw HeartbeatMissed();
      is_heard_ = false;
    }
    children_.beat();
    return true;
  }

  void listen() {
    take_input();
    hear_signals();
    for (; !tasks_.empty(); tasks_.pop_front()) start(tasks_.front());
    for (const std::int64_t id : std::exchange(early_kills_, {})) children_.kill(id);
  }

  // One that is to be started yet is ended when it is.
  void kill(std::int64_t id) {
    const bool is_waiting = std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& task) {
      return std::any_of(task.processes.begin(), task.processes.end(),
                         [&](const detail::AgentProcess& one) { return one.id == id; });
    });
    if (is_waiting)
      early_kills_.push_back(id);
    else
      children_.kill(id);
  }

  // The others' words wait: whoever obeys them may have something to say.
  void hear_signals() {
    while (const auto frame = reader_.next()) {
      if (frame->is<detail::AgentTask>()) tasks_.push_back(frame->as<detail::AgentTask>());
      if (frame->is<detail::JobOver>()) is_over_ = true;
      if (frame->is<detail::KillProcess>()) kill(frame->as<detail::KillProcess>().id);
      if (frame->is<detail::SignalFrame>()) pass_on(frame->as<detail::SignalFrame>().number);
    }
  }

  void take_input() {
    pollfd input{options_.input, POLLIN, 0};
    if (::poll(&input, 1, 0) <= 0) return;
    char block[16384];
    const ssize_t got = ::read(options_.input, block, sizeof block);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) throw ConnectionClosed();
    launcher_heartbeat_.heard();
    is_heard_ = true;
    reader_.append({block, static_cast<std::size_t>(got)});
  }

  void start(const detail::AgentTask& task) {
    outlives_launcher_ = task.outlives_launcher;
    try {
      for (const detail::AgentProcess& process : task.processes) {
        detail::ChildOptions child{process.id, task.command, task.environment, task.folder};
        child.environment.insert(child.environment.end(), process.environment.begin(),
                                 process.environment.end());
        child.environment.push_back("PATH=" + search_path());
        child.environment.push_back(fmt::format("LOCKSTEP_AGENT={}", ::getpid()));
        child.is_ours = options_.has_terminal && process.id == 0 && !task.keeps_output &&
                        !task.outlives_launcher;
        if (process.slot >= 0)
          child.processors =
              bound_processors(task.binding, process.slot, task.slots, find_cores(usable_cores()));
        child.mask = options_.mask.value_or(signals_.mask_before());
        children_.start(child);
      }
    } catch (const std::exception& error) {
      say(detail::StartFailed{error.what()});
    }
  }

  // What a launcher that is not heard has to know waits for it. Nobody waits for it to take what
  // workers print, which is dropped.
  template <class T>
  void say(const T& frame) {
    constexpr bool is_passing =
        std::is_same_v<T, detail::ProcessOutput> || std::is_same_v<T, detail::Alive>;
    if (is_heard_ || !is_passing) unsent_ += detail::encode(frame);
    if (is_heard_) write(std::exchange(unsent_, {}));
  }

  void write(std::string_view bytes) {
    while (!bytes.empty() && !is_gone_) {
      if (!is_heard_) return void(unsent_.insert(0, bytes));
      const ssize_t written = ::write(options_.output, bytes.data(), bytes.size());
      if (written > 0)
        bytes.remove_prefix(static_cast<std::size_t>(written));
      else if (written < 0 && errno == EAGAIN)
        await_output_space();
      else if (written == 0 || errno != EINTR)
        throw ConnectionClosed();
    }
  }

  // Whoever reads the launcher's output may take their time, but the launcher must be there, and
  // can stop the workers meanwhile.
  void await_output_space() {
    pollfd watched[] = {
        {options_.output, POLLOUT, 0}, {options_.input, POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
    ::poll(watched, 3, 1000);
    await_signals();
    take_input();
    hear_signals();
    live();
  }

  // While something is being written: what is to be said of it waits.
  void await_signals() {
    while (const auto signal = signals_.next()) {
      unsaid_.push_back(*signal);
      pass_on(*signal);
    }
  }

  AgentOptions options_;
  detail::SignalQueue signals_;
  detail::FrameReader reader_;
  std::deque<detail::AgentTask> tasks_;    // to be started, once nothing is being written
  std::vector<std::int64_t> early_kills_;  // of processes among them
  detail::HeartbeatMonitor launcher_heartbeat_;
  detail::Children children_;
  std::optional<comm::Clock::time_point> stop_by_;  // since workers were asked to stop
  std::deque<int> unsaid_;                          // signals that came while we wrote
  std::string unsent_;                              // until the launcher is heard again
  bool is_heard_ = true, is_gone_ = false;  // the launcher: it may be there, and is gone for good
  bool is_over_ = false, outlives_launcher_ = false;
};

// ssh takes it to a launcher that was only stopped, or held up.
void report_missed_heartbeat(const AgentOptions& options) {
  const auto deadline = std::chrono::duration<double>(detail::heartbeat_deadline(options.timeout));
  print(
      fmt::format("the agent heard nothing from the launcher for {:.1f} s, and ended its workers\n",
                  deadline.count()));
}

}  // namespace

int run_agent(const AgentOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);
  // What the launcher has ssh ignore, a command in ssh's place has handed on.
  for (const int stop : {SIGINT, SIGTERM, SIGHUP}) ::signal(stop, SIG_DFL);
  detail::set_process_title("lockstep-agent", "lockstep agent");
  try {
    Agent(options).run();
    return 0;
  } catch (const HeartbeatMissed&) {
    report_missed_heartbeat(options);
  } catch (const std::exception&) {
    // The launcher speaks another language.
  }
  return 1;
}

}  // namespace lockstep::cluster
