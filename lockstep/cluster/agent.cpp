// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/agent.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <exception>
#include <filesystem>

#include "lockstep/base/version.h"
#include "lockstep/cluster/detail/children.h"
#include "lockstep/cluster/detail/environment.h"
#include "lockstep/cluster/detail/frames.h"
#include "lockstep/cluster/detail/signal_queue.h"
#include "lockstep/cluster/detail/silence.h"

namespace lockstep::cluster {
namespace {

using detail::FieldWriter;
using detail::FrameKind;

// The launcher went away.
struct Gone {};
// It may still be there, but is not heard.
struct Silent {};
// A signal asks us to end.
struct Stopped {};

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

class Agent {
 public:
  explicit Agent(const AgentOptions& options)
      : options_(options),
        silence_(detail::longest_silence(options.timeout)),
        children_({[this](int rank, int stream, std::string_view bytes) {
                     say(FrameKind::output, FieldWriter().number(rank).number(stream).text(bytes));
                   },
                   [this](int rank, int status, int signal) {
                     say(FrameKind::end, FieldWriter().number(rank).number(status).number(signal));
                   }},
                  detail::longest_silence(options.timeout)) {
    ::fcntl(options.output, F_SETFL, O_NONBLOCK);
  }

  [[noreturn]] void run() {
    write(detail::kAgentMark);
    say(FrameKind::hello, FieldWriter().text(version()).text(launcher_address()));
    while (true) {
      check_signals();
      wait();
      listen();
      children_.move_on();
      if (live()) say(FrameKind::alive, {});
    }
  }

 private:
  void check_signals() const {
    if (signals_.next()) throw Stopped();
  }

  void wait() const {
    std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}, {options_.input, POLLIN, 0}};
    children_.watch(watched);
    ::poll(watched.data(), watched.size(), 1000);
  }

  // Whenever the others expect a word from us. Throws Silent when none came from the launcher.
  bool live() {
    if (!silence_.goes_on()) return false;
    if (silence_.is_too_long() && !options_.has_terminal) throw Silent();
    children_.reassure();
    return true;
  }

  void listen() {
    take_input();
    hear_signals();
    for (; !tasks_.empty(); tasks_.pop_front()) start(detail::AgentTask::from(tasks_.front()));
  }

  // The others' words wait: whoever obeys them may have something to say.
  void hear_signals() {
    while (const auto frame = reader_.next()) {
      if (frame->kind == FrameKind::start) tasks_.push_back(frame->fields);
      if (frame->kind == FrameKind::signal)
        children_.signal(static_cast<int>(detail::FieldReader(frame->fields).number()));
    }
  }

  void take_input() {
    pollfd input{options_.input, POLLIN, 0};
    if (::poll(&input, 1, 0) <= 0) return;
    char block[16384];
    const ssize_t got = ::read(options_.input, block, sizeof block);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) throw Gone();
    silence_.broken();
    reader_.append({block, static_cast<std::size_t>(got)});
  }

  void start(const detail::AgentTask& task) {
    try {
      for (const int rank : task.ranks) {
        detail::ChildOptions child{rank, task.command, task.environment, task.folder};
        child.environment.push_back(fmt::format("LOCKSTEP_RANK={}", rank));
        child.environment.push_back("PATH=" + search_path());
        child.is_ours = options_.has_terminal && rank == 0;
        child.mask = signals_.mask_before();
        children_.start(child);
      }
    } catch (const std::exception& error) {
      say(FrameKind::failure, FieldWriter().text(error.what()));
    }
  }

  void say(FrameKind kind, const FieldWriter& fields) { write(detail::encode(kind, fields)); }

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(options_.output, bytes.data(), bytes.size());
      if (written > 0)
        bytes.remove_prefix(static_cast<std::size_t>(written));
      else if (written < 0 && errno == EAGAIN)
        await_room();
      else if (written == 0 || errno != EINTR)
        throw Gone();
    }
  }

  // Whoever reads the launcher's output may take their time, but the launcher must be there, and
  // can stop the workers meanwhile.
  void await_room() {
    pollfd watched[] = {
        {options_.output, POLLOUT, 0}, {options_.input, POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
    ::poll(watched, 3, 1000);
    check_signals();
    take_input();
    hear_signals();
    live();
  }

  AgentOptions options_;
  detail::SignalQueue signals_;
  detail::FrameReader reader_;
  std::deque<std::string> tasks_;  // to be started, once nothing is being written
  detail::Silence silence_;
  detail::Children children_;
};

// ssh takes it to a launcher that was only stopped, or held up.
void say_silent(const AgentOptions& options) {
  const auto silence = std::chrono::duration<double>(detail::longest_silence(options.timeout));
  const std::string line =
      fmt::format("the agent heard nothing from the launcher for {:.1f} s, and ended its workers\n",
                  silence.count());
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

int run_agent(const AgentOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);
  try {
    Agent(options).run();
  } catch (const Gone&) {
    return 0;
  } catch (const Silent&) {
    say_silent(options);
  } catch (const Stopped&) {
  } catch (const std::exception&) {
    // The launcher speaks another language.
  }
  return 1;
}

}  // namespace lockstep::cluster
