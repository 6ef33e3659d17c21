// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/launch.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "lockstep/base/hmac.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/version.h"
#include "lockstep/cluster/detail/heartbeat.h"
#include "lockstep/cluster/launch/detail/host_link.h"
#include "lockstep/cluster/launch/detail/interruptible_writer.h"
#include "lockstep/cluster/launch/detail/launch_hosts.h"
#include "lockstep/cluster/launch/detail/process_title.h"
#include "lockstep/cluster/launch/detail/rank_log.h"
#include "lockstep/cluster/launch/detail/signal_queue.h"
#include "lockstep/cluster/launch/detail/ssh_command.h"
#include "lockstep/cluster/launch/detail/survivors.h"
#include "lockstep/cluster/launch/detail/worker_output.h"
#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/comm/errors.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster {
namespace {

using comm::Clock;
using detail::Frame;
using detail::HostLink;

constexpr int kLookEveryMs = 100;
// What is killed is gone by then, if anything can end it.
constexpr auto kKillTime = std::chrono::seconds(3);

// One process of the job.
struct Process {
  Role role = Role::worker;
  int rank = 0;
};

// One host of the job, and the processes on it.
struct Host {
  HostLink link;
  bool is_local = false;
  detail::HeartbeatMonitor heartbeat;
  std::vector<std::int64_t> ids = {};  // of processes that are not known to have ended
  bool is_there = false;
  std::string our_address = {};  // as seen from there
  std::int64_t first_worker = 0;
  int slots = 0;  // workers
  // Of a worker, among those of this host; -1: a server.
  int slot_of(std::int64_t id) const {
    return id < first_worker + slots ? static_cast<int>(id - first_worker) : -1;
  }
};

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options),
        heartbeat_deadline_(detail::heartbeat_deadline(options.timeout)),
        is_one_machine_(true),
        secret_(make_secret()) {
    const std::vector<HostSlots> all = detail::hosts_of(options);
    detail::check_process_limits(all, options.servers);
    if (!options.log_folder.empty()) detail::make_log_folder(options.log_folder);
    for (const HostSlots& host : all)
      is_one_machine_ = is_one_machine_ && is_this_machine(host.name);
    connect(all);
    next_id_ = workers_ + options.servers;
    heartbeat_thread_ =
        std::jthread([this](const std::stop_token& stop) { send_heartbeats(stop); });
    pthread_setname_np(heartbeat_thread_.native_handle(), "heartbeat");
  }
  // All at once, before each is waited for.
  ~Launcher() {
    for (Host& host : hosts_) host.link.hang_up();
  }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  LaunchResult run() {
    if (!await_hosts()) return std::move(result_);
    find_rendezvous();
    for (Host& host : hosts_) start_workers(host);
    while (running() > 0 || survivors_.restarts().are_planned()) turn();
    for (Host& host : hosts_) host.link.hang_up();
    for (Host& host : hosts_) host.link.close();
    hear_coordinator();
    if (result_.stopped_by == 0 && !has_anybody_finished()) count_losses();
    return std::move(result_);
  }

 private:
  // The agent on this machine first: it is forked, and holds what is open by then.
  void connect(const std::vector<HostSlots>& all) {
    for (const HostSlots& host : all) workers_ += host.slots;
    for (const bool local : {true, false}) {
      int first = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (is_this_machine(all[i].name) == local)
          add_host(all[i], local, first,
                   detail::servers_of(i, all.size(), workers_, options_.servers));
        first += all[i].slots;
      }
    }
  }

  void add_host(const HostSlots& slots, bool local, int first_worker,
                const std::vector<std::int64_t>& servers) {
    const sigset_t& mask = signals_.mask_before();
    Host host{
        local ? HostLink::fork_agent(slots.name, agent_options(), mask)
              : HostLink::run_command(slots.name, detail::ssh_command(options_, slots.name), mask),
        local, detail::HeartbeatMonitor(heartbeat_deadline_)};
    for (int i = 0; i < slots.slots; ++i) host.ids.push_back(first_worker + i);
    host.first_worker = first_worker;
    host.slots = slots.slots;
    host.ids.insert(host.ids.end(), servers.begin(), servers.end());
    hosts_.push_back(std::move(host));
  }

  AgentOptions agent_options() const {
    AgentOptions options;
    options.timeout = options_.timeout;
    options.grace = options_.grace;
    return options;
  }

  // In a thread of its own, since the other may be held up by whoever reads our output.
  void send_heartbeats(const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    do {
      for (Host& host : hosts_) host.link.send(detail::encode(detail::Alive{}));
      never.wait_for(lock, stop, detail::HeartbeatMonitor::interval(heartbeat_deadline_),
                     [] { return false; });
    } while (!stop.stop_requested());
  }

  // False when we are asked to stop meanwhile.
  bool await_hosts() {
    const auto deadline = Clock::now() + options_.timeout;
    const auto is_there = [](const Host& host) { return host.is_there; };
    while (!std::all_of(hosts_.begin(), hosts_.end(), is_there)) {
      wait();
      if (const auto number = signals_.next()) result_.stopped_by = *number;
      for (Host& host : hosts_)
        if (result_.stopped_by == 0) greet(host);
      if (result_.stopped_by != 0) return false;
      if (Clock::now() >= deadline) fail_unanswered();
    }
    return true;
  }

  void greet(Host& host) {
    host.link.advance();
    try {
      if (const auto frame = host.is_there ? std::nullopt : host.link.next())
        take_hello(host, *frame);
    } catch (const Corrupt& error) {
      throw not_understood(host, error);
    }
    while (host.link.next_remark()) {
    }
    if (host.is_there || !host.link.is_closed()) return;
    result_.stopped_by = host.link.stopped_by();
    if (result_.stopped_by == 0)
      throw IoError("launch: {}: {}", host.link.host(), host.link.why_closed());
  }

  void take_hello(Host& host, const Frame& frame) {
    if (!frame.is<detail::AgentHello>()) throw Corrupt("it does not say hello first");
    const auto hello = frame.as<detail::AgentHello>();
    if (hello.version != version())
      throw comm::Refused(fmt::format("launch: {}: has lockstep {}, this is {}", host.link.host(),
                                      hello.version, version()));
    host.our_address = hello.launcher_address;
    host.is_there = true;
  }

  static IoError not_understood(const Host& host, const Corrupt& error) {
    return IoError("launch: {}: the agent is not understood: {}", host.link.host(), error.what());
  }

  [[noreturn]] void fail_unanswered() const {
    std::string names;
    for (const Host& host : hosts_)
      if (!host.is_there) names += (names.empty() ? "" : ", ") + host.link.host();
    throw comm::Timeout(fmt::format("launch: {}: did not answer within {:.1f} s", names,
                                    std::chrono::duration<double>(options_.timeout).count()),
                        -1, names, "launch");
  }

  // Where the members of the job will meet, from now on.
  void find_rendezvous() {
    CoordinatorOptions options;
    options.secret = secret_;
    options.workers = workers_;
    options.servers = options_.servers;
    options.timeout = options_.timeout;
    options.heartbeat = options_.heartbeat.count() > 0 ? options_.heartbeat : heartbeat_deadline_;
    options.min_workers = options_.min_workers;
    options.max_workers = options_.max_workers;
    options.patience = options_.timeout;
    options.on_event = [this](const MembershipEvent& event) {
      const std::lock_guard lock(said_mutex_);
      happened_.push_back(event);
    };
    options.listen.port = options_.coordinator.port;
    options.ports = options_.ports;
    const bool has_v6 = std::any_of(hosts_.begin(), hosts_.end(), [&](const Host& host) {
      return detail::may_be_v6(address_for(host));
    });
    if (!is_one_machine_)
      options.listen.host = has_v6 ? "::" : "0.0.0.0";
    else if (!options_.coordinator.host.empty())
      options.listen.host = options_.coordinator.host;
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(said_mutex_);
      said_.push_back(line);
    };
    coordinator_.emplace(options);
    // What it has to complain about, the members hear and say.
    coordinator_thread_ = std::jthread([this](const std::stop_token& stop) {
      try {
        coordinator_->run(stop);
      } catch (const std::exception&) {
        has_failed_ = true;
      }
    });
    pthread_setname_np(coordinator_thread_.native_handle(), "coordinator");
  }

  std::string address_for(const Host& host) const {
    if (!options_.coordinator.host.empty()) return options_.coordinator.host;
    if (is_one_machine_) return "127.0.0.1";
    if (!host.is_local && !host.our_address.empty()) return host.our_address;
    for (const Host& other : hosts_)  // a worker here must be reached from there
      if (!other.is_local && !other.our_address.empty()) return other.our_address;
    return own_host_name();
  }

  void start_workers(Host& host) {
    detail::AgentTask task = task_for(host);
    for (const std::int64_t id : host.ids)
      task.processes.push_back({id, place_settings(id), host.slot_of(id)});
    host.link.send(detail::encode(task));
  }

  // In the place of one that is lost.
  void start_late_worker(Host& host) {
    if (host.link.is_closed() || !survives()) return;
    const std::int64_t id = next_id_++;
    host.ids.push_back(id);
    survivors_.add_late(id);
    detail::AgentTask task = task_for(host);
    task.environment.push_back("LOCKSTEP_LATE=1");
    task.processes.push_back({id, place_settings(id), host.slot_of(id)});
    host.link.send(detail::encode(task));
    say(fmt::format("worker {} is started{}", id,
                    is_one_machine_ ? "" : " on " + host.link.host()));
  }

  detail::AgentTask task_for(const Host& host) const {
    detail::AgentTask task;
    task.folder =
        options_.folder.empty() ? std::filesystem::current_path().string() : options_.folder;
    task.command = options_.command;
    task.slots = host.slots;
    task.binding = options_.binding;
    task.keeps_output = !options_.log_folder.empty();
    task.environment = options_.environment;
    const auto set = [&](const char* name, const std::string& value) {
      task.environment.push_back(fmt::format("LOCKSTEP_{}={}", name, value));
    };
    set("WORKERS", std::to_string(workers_));
    set("SERVERS", std::to_string(options_.servers));
    set("COORDINATOR",
        comm::to_string(comm::Endpoint{address_for(host), coordinator_->endpoint().port}));
    set("SECRET", secret_);
    set("HOST", is_one_machine_ ? "" : host.link.host());
    set("INTERFACE", options_.interface);
    set("TRANSPORT", options_.transport);
    set("PORTS", to_string(options_.ports));
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(options_.timeout);
    set("TIMEOUT", std::to_string(std::max<std::int64_t>(1, seconds.count())));
    return task;
  }

  // Late ones there are only where there are no servers.
  Process process_of(std::int64_t id) const {
    if (id < workers_ || options_.servers == 0) return {Role::worker, static_cast<int>(id)};
    return {Role::server, static_cast<int>(id - workers_)};
  }

  std::vector<std::string> place_settings(std::int64_t id) const {
    const Process process = process_of(id);
    return {fmt::format("LOCKSTEP_ROLE={}", to_string(process.role)),
            fmt::format("LOCKSTEP_RANK={}", process.rank)};
  }

  void wait() const {
    std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}};
    for (const Host& host : hosts_) host.link.watch(watched);
    ::poll(watched.data(), watched.size(), kLookEveryMs);
  }

  void turn() {
    wait();
    for (Host& host : hosts_) hear(host);
    while (const auto number = signals_.next()) take_signal(*number);
    say_what_coordinator_said();
    look_after_members();
    if (deadline_ && Clock::now() > *deadline_) killed_ ? give_up() : kill_late();
  }

  void say_what_coordinator_said() {
    std::vector<std::string> lines;
    {
      const std::lock_guard lock(said_mutex_);
      lines.swap(said_);
    }
    for (const std::string& line : lines) say(line);
  }

  void say(const std::string& line) const {
    writer_.write(STDERR_FILENO, fmt::format("lockstep: {}\n", line));
  }

  // Of a job that survives the loss of workers.
  bool survives() const {
    return !deadline_ && result_.stopped_by == 0 && coordinator_->survives_lost_workers();
  }

  void look_after_members() {
    std::deque<MembershipEvent> events;
    {
      const std::lock_guard lock(said_mutex_);
      events.swap(happened_);
    }
    for (const MembershipEvent& event : events) take(event);
    if (has_failed_) return give_up_survival();
    show_first(coordinator_->first_worker());
    for (const std::size_t host : survivors_.restarts().take_due(time_now()))
      start_late_worker(hosts_[host]);
    survived_ = survived_ || coordinator_->survives_lost_workers();
    if (!survives()) end_late_workers();
  }

  static detail::Restarts::Time time_now() {
    return std::chrono::duration_cast<detail::Restarts::Time>(Clock::now().time_since_epoch());
  }

  void take(const MembershipEvent& event) {
    say(to_string(event));
    if (survivors_.take(event)) kill_process(event.member);
  }

  void kill_process(std::int64_t id) {
    for (Host& host : hosts_)
      if (has(host, id)) host.link.send(detail::encode(detail::KillProcess{id}));
  }

  static bool has(const Host& host, std::int64_t id) {
    return std::find(host.ids.begin(), host.ids.end(), id) != host.ids.end();
  }

  void show_first(std::int64_t id) {
    if (id == first_) return;
    if (const auto old = outputs_.find(first_); old != outputs_.end()) old->second.set_first(false);
    first_ = id;
    for (Host& host : hosts_)
      if (has(host, id)) output_for(host, id).set_first(true);
  }

  // The last worker that had the state is gone: now the losses count.
  void give_up_survival() {
    if (std::exchange(gave_up_, true)) return;
    survivors_.restarts().cancel();
    if (count_losses() && result_.stopped_by == 0) end_others();
  }

  bool count_losses() {
    bool any = false;
    for (MemberEnd& end : result_.ends)
      if (end.role == Role::worker && std::exchange(end.tolerated, false)) any = true;
    return any;
  }

  // All may have been lost at once, before the coordinator could know.
  bool has_anybody_finished() const {
    return coordinator_->is_run_done() ||
           std::any_of(result_.ends.begin(), result_.ends.end(), [this](const MemberEnd& end) {
             return end.role == Role::worker && end.is_good() && !survivors_.has_left(end.id);
           });
  }

  // Those that are not members yet, when the run is done.
  void end_late_workers() {
    survivors_.restarts().cancel();
    if (coordinator_->survives_lost_workers() || !survived_ || std::exchange(ended_late_, true))
      return;
    for (const Host& host : hosts_)
      for (const std::int64_t id : host.ids)
        if (survivors_.is_late(id)) kill_process(id);
  }

  // What the job can do without; another one takes its place.
  bool is_replaced(const MemberEnd& end, const Host& host) {
    if (end.role != Role::worker) return false;
    if (end.signal == SIGKILL && result_.stopped_by == 0 && coordinator_->is_run_done())
      return true;
    if (!survivors_.can_do_without(end, survives())) return false;
    if (!survives() || !survivors_.wants_replacement(end)) return true;
    say(end.str());
    const auto place = static_cast<std::size_t>(&host - hosts_.data());
    if (host.link.is_closed() || !survivors_.restarts().plan(place, time_now()))
      say(fmt::format("nobody takes the place of worker {}", end.rank));
    return true;
  }

  // The workers have gone: all that they had to say is there.
  void hear_coordinator() {
    coordinator_thread_ = {};
    say_what_coordinator_said();
    result_.complaints = coordinator_->complaints();
    result_.note_complaints();
  }

  void hear(Host& host) {
    if (host.link.is_closed() && host.ids.empty()) return;
    host.link.advance();
    try {
      while (const auto frame = host.link.next()) {
        host.heartbeat.heard();
        if (!host.ids.empty()) handle(host, *frame);
      }
    } catch (const Corrupt& error) {
      throw not_understood(host, error);
    }
    while (const auto remark = host.link.next_remark())
      if (!remark->empty())
        writer_.write(STDERR_FILENO, fmt::format("[{}] {}\n", host.link.host(), *remark));
    if (host.link.is_closed()) return lose(host, host.link.why_closed());
    if (host.heartbeat.tick() && host.heartbeat.is_late())
      lose(host, fmt::format("nothing was heard from its host for {:.1f} s: the network is cut, or "
                             "ssh or the agent hangs",
                             std::chrono::duration<double>(heartbeat_deadline_).count()));
  }

  void handle(Host& host, const Frame& frame) {
    if (frame.is<detail::StartFailed>())
      throw NotFound("launch: {}{}", is_one_machine_ ? "" : host.link.host() + ": ",
                     frame.as<detail::StartFailed>().text);
    if (frame.is<detail::SignalFrame>()) return stop(frame.as<detail::SignalFrame>().number);
    if (frame.is<detail::ProcessOutput>()) {
      const auto said = frame.as<detail::ProcessOutput>();
      show_first(coordinator_->first_worker());  // was known before it could say this
      output_for(host, said.id).add(said.stream, said.bytes);
    } else if (frame.is<detail::ProcessEnd>()) {
      take_end(host, frame.as<detail::ProcessEnd>());
    }
  }

  void take_end(Host& host, const detail::ProcessEnd& its) {
    MemberEnd end = end_of(its.id);
    end.pid = its.pid;
    end.status = its.status;
    end.signal = its.signal;
    end.lost = its.by_agent.empty() ? survivors_.why_expelled(its.id) : its.by_agent;
    end.by_kernel = its.by_kernel;
    end.by_launcher = killed_ && end.signal == SIGKILL && end.lost.empty() && end.by_kernel.empty();
    note(host, std::move(end));
  }

  MemberEnd end_of(std::int64_t id) const {
    const Process process = process_of(id);
    return {.id = id, .role = process.role, .rank = process.rank};
  }

  // An agent that hangs, or a worker that not even SIGKILL ends.
  void give_up() {
    for (Host& host : hosts_)
      lose(host, fmt::format("it did not end within {:.1f} s of being killed",
                             std::chrono::duration<double>(kKillTime).count()));
  }

  void lose(Host& host, const std::string& why) {
    for (const std::int64_t id : std::vector<std::int64_t>(host.ids)) {
      MemberEnd end = end_of(id);
      end.lost = why;
      note(host, std::move(end));
    }
  }

  void note(Host& host, MemberEnd end) {
    detail::WorkerOutput& output = output_for(host, end.id);
    output.finish();
    end.last_lines = output.last_lines();
    end.host = is_one_machine_ ? "" : host.link.host();
    std::erase(host.ids, end.id);
    end.tolerated = is_tolerated(end) || is_replaced(end, host);
    const int signal = end.stopped_by();
    const bool is_good = end.is_good(), is_tolerated = end.tolerated;
    if (is_tolerated && end.role == Role::server) say_tolerated(end, host.link.host());
    result_.ends.push_back(std::move(end));
    if (is_tolerated) return;
    if (signal != 0)
      stop_with_worker(signal);
    else if (!is_good)
      end_others();
    else if (have_workers_ended())
      end_servers();
  }

  // Whether the job goes on as if nothing had happened. A server that must be ended when all is
  // done takes nothing from the result.
  bool is_tolerated(const MemberEnd& end) const {
    if (end.role != Role::server || end.is_good() || result_.stopped_by != 0) return false;
    return workers_done_ || (!deadline_ && coordinator_->tolerates_lost_servers());
  }

  void say_tolerated(const MemberEnd& end, const std::string& host) const {
    const std::string whose =
        fmt::format("server {} on {}{}", end.rank, is_this_machine(host) ? own_host_name() : host,
                    end.pid > 0 ? fmt::format(" (pid {})", end.pid) : "");
    const std::string what = end.by_launcher
                                 ? "did not end by itself after the workers, and was killed"
                             : workers_done_ ? end.how() + " after the workers"
                                             : end.how() + "; its backup takes over";
    writer_.write(STDERR_FILENO, fmt::format("lockstep: {} {}\n", whose, what));
  }

  bool have_workers_ended() const {
    return std::none_of(hosts_.begin(), hosts_.end(), [this](const Host& host) {
      return std::any_of(host.ids.begin(), host.ids.end(),
                         [this](std::int64_t id) { return process_of(id).role == Role::worker; });
    });
  }

  // The coordinator tells them that all workers have left.
  void end_servers() {
    if (deadline_ || running() == 0) return;
    workers_done_ = true;
    deadline_ = Clock::now() + options_.grace;
  }

  // Somebody asked a worker to stop, and so the job. Those who failed since it is gone did not fail
  // before.
  void stop_with_worker(int signal) {
    if (result_.stopped_by != 0) return;
    stop(signal);
    result_.ended_before_stop = 0;
  }

  void end_others() {
    if (!deadline_) deadline_ = Clock::now() + options_.grace;
    for (Host& host : hosts_) host.link.send(detail::encode(detail::JobOver{}));
  }

  detail::WorkerOutput& output_for(const Host& host, std::int64_t id) {
    const auto print = [this](int stream, std::string_view bytes) { writer_.write(stream, bytes); };
    const Process process = process_of(id);
    const auto found = outputs_.find(id);
    if (found != outputs_.end()) return found->second;
    detail::RankLog log;
    if (!options_.log_folder.empty())
      log = detail::RankLog(options_.log_folder, process.role, process.rank);
    return outputs_
        .try_emplace(id, process.role, process.rank, is_one_machine_ ? "" : host.link.host(), print,
                     std::move(log))
        .first->second;
  }

  // Whoever presses Ctrl-C twice is in a hurry. A terminal that closes, or a session that ends,
  // says so after SIGTERM or before it: that is one wish.
  void take_signal(int number) {
    const bool again = std::exchange(was_asked_, true);
    if (again && number != SIGHUP && last_signal_ != SIGHUP) return kill_all();
    last_signal_ = number;
    stop(number);
  }

  // Whichever process of the job was asked first. Those that hang, or are stopped, have the grace
  // period too.
  void stop(int number) {
    if (result_.stopped_by != 0) return;
    result_.stopped_by = number;
    result_.ended_before_stop = result_.ends.size();
    read_until_ = Clock::now() + options_.grace;
    if (!deadline_) deadline_ = Clock::now() + options_.grace;
    signal_all(number);
    for (const Host& host : hosts_) host.link.wake();
  }

  void kill_late() {
    if (killed_) return;
    result_.killed_because = fmt::format("did not end within {:.1f} s, and was killed",
                                         std::chrono::duration<double>(options_.grace).count());
    kill_all();
  }

  void kill_all() {
    if (std::exchange(killed_, true)) return;
    signal_all(SIGKILL);
    for (const Host& host : hosts_) host.link.wake();
    read_until_ = Clock::now();
    deadline_ = Clock::now() + kKillTime;
  }

  // While whoever reads our output takes their time. A job that was stopped does not wait for that
  // without end.
  bool goes_on_unread() {
    while (const auto number = signals_.next()) take_signal(*number);
    if (deadline_ && Clock::now() > *deadline_) kill_late();
    return !read_until_ || Clock::now() < *read_until_;
  }

  void signal_all(int number) {
    for (Host& host : hosts_) host.link.send(detail::encode(detail::SignalFrame{number}));
  }

  std::size_t running() const {
    std::size_t count = 0;
    for (const Host& host : hosts_) count += host.ids.size();
    return count;
  }

  const detail::ThreadName name_{"lockstep-launch"};
  const LaunchOptions& options_;
  std::chrono::milliseconds heartbeat_deadline_;  // of a host that is lost
  bool is_one_machine_;
  std::string secret_;
  int workers_ = 0;
  const detail::SignalQueue signals_;
  std::vector<Host> hosts_;
  std::mutex said_mutex_;
  std::vector<std::string> said_;         // by the coordinator, guarded by said_mutex_
  std::deque<MembershipEvent> happened_;  // so is it
  std::atomic<bool> has_failed_ = false;  // the coordinator
  std::optional<Coordinator> coordinator_;
  std::jthread heartbeat_thread_, coordinator_thread_;  // after what they use
  const detail::InterruptibleWriter writer_{signals_.fd(), [this] { return goes_on_unread(); }};
  std::map<std::int64_t, detail::WorkerOutput> outputs_;
  LaunchResult result_;
  bool was_asked_ = false, killed_ = false;
  bool workers_done_ = false;  // all of them, well
  detail::Survivors survivors_{options_.max_restarts};
  std::int64_t first_ = 0;  // the first worker
  std::int64_t next_id_ = 0;
  bool survived_ = false;  // at some time a loss would not have ended the job
  bool gave_up_ = false, ended_late_ = false;
  int last_signal_ = 0;
  std::optional<Clock::time_point> deadline_, read_until_;
};

}  // namespace

LaunchResult launch(const LaunchOptions& options) {
  detail::check_options(options);
  return Launcher(options).run();
}

}  // namespace lockstep::cluster
