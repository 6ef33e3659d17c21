// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "lockstep/base/hmac.h"
#include "lockstep/base/version.h"
#include "lockstep/cluster/coordinator.h"
#include "lockstep/cluster/detail/host_link.h"
#include "lockstep/cluster/detail/host_name.h"
#include "lockstep/cluster/detail/patient_writer.h"
#include "lockstep/cluster/detail/signal_queue.h"
#include "lockstep/cluster/detail/silence.h"
#include "lockstep/cluster/detail/ssh_command.h"
#include "lockstep/cluster/detail/worker_output.h"
#include "lockstep/comm/errors.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster {
namespace {

using comm::Clock;
using detail::FieldReader;
using detail::FieldWriter;
using detail::Frame;
using detail::FrameKind;
using detail::HostLink;

constexpr int kLookEveryMs = 100;

// One host of the job, and the ranks on it.
struct Host {
  HostLink link;
  bool is_local = false;
  detail::Silence silence;
  std::vector<int> ranks = {};  // that are not known to have ended
  bool is_there = false;
  std::string our_address = {};  // as seen from there
};

std::vector<HostSlots> hosts_of(const LaunchOptions& options) {
  std::vector<HostSlots> hosts = options.hosts;
  if (hosts.empty()) hosts.push_back({"localhost", std::max(options.workers, 1)});
  return options.workers > 0 ? take_slots(std::move(hosts), options.workers) : hosts;
}

void check_options(const LaunchOptions& options) {
  if (options.command.empty()) throw InvalidArgument("launch: no program was named");
  if (options.workers < 0)
    throw InvalidArgument("launch: {} workers, expected 1 or more", options.workers);
  for (const std::string& setting : options.environment)
    if (setting.find('=') == std::string::npos || setting.front() == '=')
      throw InvalidArgument("launch: environment '{}', expected NAME=VALUE", setting);
}

// Whether a host with this name or address may come to us by IPv6.
bool may_be_v6(const std::string& host) {
  if (host.find(':') != std::string::npos) return true;
  try {
    const auto usable = comm::interfaces_of_kind(comm::list_interfaces(), {host, 0});
    return std::any_of(usable.begin(), usable.end(), [](const comm::Interface& one) {
      return one.address.find(':') != std::string::npos;
    });
  } catch (const IoError&) {
    return false;  // a name that only the others know
  }
}

// Ended by the signal that the launcher was asked to stop with.
bool is_as_asked(const WorkerEnd& end, int signal) {
  return signal != 0 && (end.signal == signal || end.status == 128 + signal);
}

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options),
        silence_(detail::longest_silence(options.timeout)),
        is_one_machine_(true),
        secret_(make_secret()) {
    const std::vector<HostSlots> all = hosts_of(options);
    for (const HostSlots& host : all)
      is_one_machine_ = is_one_machine_ && is_this_machine(host.name);
    connect(all);
    beating_ = std::jthread([this](const std::stop_token& stop) { beat(stop); });
    pthread_setname_np(beating_.native_handle(), "beat");
  }
  // All at once, before each is waited for.
  ~Launcher() {
    for (Host& host : hosts_) host.link.hang_up();
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  LaunchResult run() {
    await_hosts();
    meet();
    for (Host& host : hosts_) start_workers(host);
    while (running() > 0) turn();
    for (Host& host : hosts_) host.link.hang_up();
    for (Host& host : hosts_) host.link.close();
    return std::move(result_);
  }

 private:
  // The agent on this machine first: it is forked, and holds what is open by then.
  void connect(const std::vector<HostSlots>& all) {
    for (const bool local : {true, false}) {
      int rank = 0;
      for (const HostSlots& host : all) {
        if (is_this_machine(host.name) == local) add_host(host, local, rank);
        rank += host.slots;
      }
    }
  }

  void add_host(const HostSlots& slots, bool local, int first_rank) {
    const sigset_t& mask = signals_.mask_before();
    Host host{
        local ? HostLink::fork_agent(slots.name, options_.timeout, mask)
              : HostLink::run_command(slots.name, detail::ssh_command(options_, slots.name), mask),
        local, detail::Silence(silence_)};
    for (int i = 0; i < slots.slots; ++i) host.ranks.push_back(first_rank + i);
    size_ += slots.slots;
    hosts_.push_back(std::move(host));
  }

  // In a thread of its own, since the other may be held up by whoever reads our output.
  void beat(const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    do {
      for (Host& host : hosts_) host.link.send(detail::encode(FrameKind::alive, FieldWriter()));
      never.wait_for(lock, stop, detail::Silence::interval(silence_), [] { return false; });
    } while (!stop.stop_requested());
  }

  void await_hosts() {
    const auto deadline = Clock::now() + options_.timeout;
    const auto is_there = [](const Host& host) { return host.is_there; };
    while (!std::all_of(hosts_.begin(), hosts_.end(), is_there)) {
      wait();
      for (Host& host : hosts_) greet(host);
      if (const auto number = signals_.next())
        throw comm::Aborted(fmt::format("launch: stopped by signal {} ({}) before all hosts "
                                        "answered",
                                        *number, strsignal(*number)),
                            -1, "", "launch");
      if (Clock::now() >= deadline) fail_silent();
    }
  }

  void greet(Host& host) {
    host.link.move_on();
    try {
      if (const auto frame = host.is_there ? std::nullopt : host.link.next())
        take_hello(host, *frame);
    } catch (const Corrupt& error) {
      throw not_understood(host, error);
    }
    while (host.link.next_remark()) {
    }
    if (!host.is_there && host.link.is_closed())
      throw IoError("launch: {}: {}", host.link.host(), host.link.why_closed());
  }

  void take_hello(Host& host, const Frame& frame) {
    if (frame.kind != FrameKind::hello) throw Corrupt("it does not say hello first");
    FieldReader fields(frame.fields);
    const std::string its_version = fields.text();
    if (its_version != version())
      throw comm::Refused(fmt::format("launch: {}: has lockstep {}, this is {}", host.link.host(),
                                      its_version, version()));
    host.our_address = fields.text();
    host.is_there = true;
  }

  static IoError not_understood(const Host& host, const Corrupt& error) {
    return IoError("launch: {}: the agent is not understood: {}", host.link.host(), error.what());
  }

  [[noreturn]] void fail_silent() const {
    std::string names;
    for (const Host& host : hosts_)
      if (!host.is_there) names += (names.empty() ? "" : ", ") + host.link.host();
    throw comm::Timeout(fmt::format("launch: {}: did not answer within {:.1f} s", names,
                                    std::chrono::duration<double>(options_.timeout).count()),
                        -1, names, "launch");
  }

  // Where the members of the job will meet, from now on.
  void meet() {
    CoordinatorOptions options;
    options.secret = secret_;
    options.size = size_;
    options.timeout = options_.timeout;
    options.listen.port = options_.coordinator.port;
    const bool has_v6 = std::any_of(hosts_.begin(), hosts_.end(),
                                    [&](const Host& host) { return may_be_v6(address_for(host)); });
    if (!is_one_machine_)
      options.listen.host = has_v6 ? "::" : "0.0.0.0";
    else if (!options_.coordinator.host.empty())
      options.listen.host = options_.coordinator.host;
    coordinator_.emplace(options);
    // What it has to complain about, the members hear and say.
    meeting_ = std::jthread([this](const std::stop_token& stop) {
      try {
        coordinator_->run(stop);
      } catch (const std::exception&) {
      }
    });
    pthread_setname_np(meeting_.native_handle(), "coordinator");
  }

  std::string address_for(const Host& host) const {
    if (!options_.coordinator.host.empty()) return options_.coordinator.host;
    if (is_one_machine_) return "127.0.0.1";
    if (!host.is_local && !host.our_address.empty()) return host.our_address;
    for (const Host& other : hosts_)  // a worker here must be reached from there
      if (!other.is_local && !other.our_address.empty()) return other.our_address;
    return detail::own_host_name();
  }

  void start_workers(Host& host) {
    detail::AgentTask task;
    task.folder =
        options_.folder.empty() ? std::filesystem::current_path().string() : options_.folder;
    task.command = options_.command;
    task.ranks = host.ranks;
    task.environment = options_.environment;
    const auto set = [&](const char* name, const std::string& value) {
      task.environment.push_back(fmt::format("LOCKSTEP_{}={}", name, value));
    };
    set("WORKERS", std::to_string(size_));
    set("COORDINATOR",
        comm::to_string(comm::Endpoint{address_for(host), coordinator_->endpoint().port}));
    set("SECRET", secret_);
    set("HOST", is_one_machine_ ? "" : host.link.host());
    set("INTERFACE", options_.interface);
    set("TRANSPORT", options_.transport);
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(options_.timeout);
    set("TIMEOUT", std::to_string(std::max<std::int64_t>(1, seconds.count())));
    host.link.send(detail::encode(FrameKind::start, task.fields()));
  }

  void wait() const {
    std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}};
    for (const Host& host : hosts_) host.link.watch(watched);
    ::poll(watched.data(), watched.size(), kLookEveryMs);
  }

  void turn() {
    wait();
    for (Host& host : hosts_) hear(host);
    while (const auto number = signals_.next()) pass_on(*number);
    if (deadline_ && Clock::now() > *deadline_) killed_ ? give_up() : kill_all();
  }

  void hear(Host& host) {
    if (host.link.is_closed() && host.ranks.empty()) return;
    host.link.move_on();
    try {
      while (const auto frame = host.link.next()) {
        host.silence.broken();
        if (!host.ranks.empty()) handle(host, *frame);
      }
    } catch (const Corrupt& error) {
      throw not_understood(host, error);
    }
    while (const auto remark = host.link.next_remark())
      if (!remark->empty())
        writer_.write(STDERR_FILENO, fmt::format("[{}] {}\n", host.link.host(), *remark));
    if (host.link.is_closed()) return lose(host, host.link.why_closed());
    if (host.silence.goes_on() && host.silence.is_too_long())
      lose(host, fmt::format("nothing was heard from its host for {:.1f} s: the network is cut, or "
                             "ssh or the agent hangs",
                             std::chrono::duration<double>(silence_).count()));
  }

  void handle(Host& host, const Frame& frame) {
    FieldReader fields(frame.fields);
    if (frame.kind == FrameKind::failure)
      throw NotFound("launch: {}{}", is_one_machine_ ? "" : host.link.host() + ": ", fields.text());
    if (frame.kind == FrameKind::alive) return;
    const int rank = static_cast<int>(fields.number());
    if (frame.kind == FrameKind::output) {
      const auto stream = fields.number();
      output_for(host, rank).add(static_cast<int>(stream), fields.text());
    } else if (frame.kind == FrameKind::end) {
      WorkerEnd end{rank};
      end.status = static_cast<int>(fields.number());
      end.signal = static_cast<int>(fields.number());
      end.by_launcher = killed_ && end.signal == SIGKILL;
      note(host, std::move(end));
    }
  }

  // An agent that hangs, or a worker that not even SIGKILL ends.
  void give_up() {
    for (Host& host : hosts_)
      lose(host, fmt::format("it did not end within {:.1f} s of being killed",
                             std::chrono::duration<double>(options_.grace).count()));
  }

  void lose(Host& host, const std::string& why) {
    for (const int rank : std::vector<int>(host.ranks)) {
      WorkerEnd end{rank};
      end.lost = why;
      note(host, std::move(end));
    }
  }

  void note(Host& host, WorkerEnd end) {
    detail::WorkerOutput& output = output_for(host, end.rank);
    output.finish();
    end.last_lines = output.last_lines();
    end.host = is_one_machine_ ? "" : host.link.host();
    std::erase(host.ranks, end.rank);
    if (!end.is_good() && !deadline_ && !is_as_asked(end, result_.stopped_by))
      deadline_ = Clock::now() + options_.grace;
    result_.ends.push_back(std::move(end));
  }

  detail::WorkerOutput& output_for(const Host& host, int rank) {
    const auto print = [this](int stream, std::string_view bytes) { writer_.write(stream, bytes); };
    return outputs_.try_emplace(rank, rank, is_one_machine_ ? "" : host.link.host(), print)
        .first->second;
  }

  void pass_on(int number) {
    if (result_.stopped_by != 0) return kill_all();
    result_.stopped_by = number;
    read_until_ = Clock::now() + options_.grace;
    signal_all(number);
  }

  void kill_all() {
    if (std::exchange(killed_, true)) return;
    signal_all(SIGKILL);
    read_until_ = Clock::now();
    deadline_ = Clock::now() + options_.grace;
  }

  // While whoever reads our output takes their time. A job that was stopped does not wait for that
  // without end.
  bool goes_on_unread() {
    while (const auto number = signals_.next()) pass_on(*number);
    if (deadline_ && Clock::now() > *deadline_) kill_all();
    return !read_until_ || Clock::now() < *read_until_;
  }

  void signal_all(int number) {
    for (Host& host : hosts_)
      host.link.send(detail::encode(FrameKind::signal, FieldWriter().number(number)));
  }

  std::size_t running() const {
    std::size_t count = 0;
    for (const Host& host : hosts_) count += host.ranks.size();
    return count;
  }

  const LaunchOptions& options_;
  std::chrono::milliseconds silence_;  // of a host that is lost
  bool is_one_machine_;
  std::string secret_;
  int size_ = 0;
  const detail::SignalQueue signals_;
  std::vector<Host> hosts_;
  std::optional<Coordinator> coordinator_;
  std::jthread beating_, meeting_;  // after what they use
  const detail::PatientWriter writer_{signals_.fd(), [this] { return goes_on_unread(); }};
  std::map<int, detail::WorkerOutput> outputs_;
  LaunchResult result_;
  bool killed_ = false;
  std::optional<Clock::time_point> deadline_, read_until_;
};

}  // namespace

std::string WorkerEnd::str() const {
  const std::string name =
      host.empty() ? fmt::format("worker {}", rank) : fmt::format("worker {} ({})", rank, host);
  if (!lost.empty()) return fmt::format("{} was lost: {}", name, lost);
  if (signal != 0)
    return fmt::format("{} was ended by signal {} ({})", name, signal, strsignal(signal));
  return fmt::format("{} ended with status {}", name, status);
}

// A host that was lost or a worker that was killed makes the others fail, maybe before we hear of
// it; else it is who failed first.
const WorkerEnd* LaunchResult::culprit() const {
  const auto first = [&](auto condition) -> const WorkerEnd* {
    const auto found = std::find_if(ends.begin(), ends.end(), condition);
    return found == ends.end() ? nullptr : &*found;
  };
  if (const WorkerEnd* end = first([](auto& one) { return !one.lost.empty(); })) return end;
  if (const WorkerEnd* end = first([&](auto& one) {
        return one.signal != 0 && !one.by_launcher && !is_as_asked(one, stopped_by);
      }))
    return end;
  return first([&](auto& one) { return one.status != 0 && !is_as_asked(one, stopped_by); });
}

LaunchResult launch(const LaunchOptions& options) {
  check_options(options);
  return Launcher(options).run();
}

}  // namespace lockstep::cluster
