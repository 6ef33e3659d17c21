// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/launch.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/base/hmac.h"
#include "lockstep/base/host_name.h"
#include "lockstep/cluster/launch/detail/hosts_file.h"
#include "lockstep/cluster/launch/detail/interruptible_writer.h"
#include "lockstep/cluster/launch/detail/job_coordinator.h"
#include "lockstep/cluster/launch/detail/job_hosts.h"
#include "lockstep/cluster/launch/detail/launch_hosts.h"
#include "lockstep/cluster/launch/detail/process_title.h"
#include "lockstep/cluster/launch/detail/rank_log.h"
#include "lockstep/cluster/launch/detail/survivors.h"
#include "lockstep/cluster/launch/detail/worker_output.h"
#include "lockstep/cluster/membership/store.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster {
namespace {

using comm::Clock;
using detail::Frame;
using detail::JobHost;

// What is killed is gone by then, if anything can end it.
constexpr auto kKillTime = std::chrono::seconds(3);
constexpr auto kLookAtFile = std::chrono::seconds(1);
constexpr auto kReachStore = std::chrono::seconds(10);
constexpr std::size_t kIdLength = 16;  // of a job's name in its store

// One process of the job.
struct Process {
  Role role = Role::worker;
  int rank = 0;
};

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options)
      : options_(options), secret_(make_secret()), hosts_(options, signals_) {}

  LaunchResult run() {
    result_.stopped_by = hosts_.await_all();
    if (result_.stopped_by != 0) return std::move(result_);
    begin_to_coordinate();
    for (JobHost& host : hosts_.all()) start_workers(host);
    while (goes_on()) turn();
    hosts_.hang_up();
    hosts_.close();
    hear_coordinator();
    return std::move(result_);
  }

 private:
  void begin_to_coordinate() {
    const std::int64_t next_id = hosts_.workers() + options_.servers;
    const CoordinatorOptions own = detail::coordinator_options(options_, hosts_, secret_);
    if (job_.store.empty())
      coordinator_.emplace(own, next_id);
    else
      coordinator_.emplace(own, next_id, StoredJob(open_store(job_.store), job_.id),
                           detail::coordinator_host(hosts_));
  }

  // Workers that came by themselves may be all that is left of it.
  bool goes_on() {
    return hosts_.running() > 0 || survivors_.restarts().planned() > 0 || survives();
  }

  void start_workers(JobHost& host) {
    if (host.ids.empty()) return;
    detail::AgentTask task = task_for(host);
    for (const std::int64_t id : host.ids)
      task.processes.push_back({id, place_settings(id), host.slot_of(id)});
    host.link.send(detail::encode(task));
  }

  // In the place of one that is lost, or one more.
  void start_late_worker(JobHost& host) {
    if (host.link.is_closed() || !survives()) return;
    const std::int64_t id = coordinator().new_id();
    host.add_late(id);
    survivors_.add_late(id);
    detail::AgentTask task = task_for(host);
    task.environment.push_back("LOCKSTEP_LATE=1");
    task.processes.push_back({id, place_settings(id), host.slot_of(id)});
    host.link.send(detail::encode(task));
    say(fmt::format("worker {} is started{}", id,
                    hosts_.is_one_machine() ? "" : " on " + host.link.host()));
  }

  detail::AgentTask task_for(const JobHost& host) const {
    detail::AgentTask task;
    task.folder =
        options_.folder.empty() ? std::filesystem::current_path().string() : options_.folder;
    task.command = options_.command;
    task.slots = static_cast<int>(host.slots.size());
    task.binding = options_.binding;
    task.keeps_output = !options_.log_folder.empty();
    task.environment = options_.environment;
    task.outlives_launcher = !job_.store.empty();
    const auto set = [&](const char* name, const std::string& value) {
      task.environment.push_back(fmt::format("LOCKSTEP_{}={}", name, value));
    };
    set("WORKERS", std::to_string(hosts_.workers()));
    set("SERVERS", std::to_string(options_.servers));
    set("COORDINATOR",
        comm::to_string(comm::Endpoint{hosts_.address_for(host), coordinator().endpoint().port}));
    set("SECRET", secret_);
    set("HOST", hosts_.is_one_machine() ? "" : host.link.host());
    set("INTERFACE", options_.interface);
    set("TRANSPORT", options_.transport);
    set("PORTS", to_string(options_.ports));
    set("STORE", job_.store);
    set("JOB", job_.id);
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(options_.timeout);
    set("TIMEOUT", std::to_string(std::max<std::int64_t>(1, seconds.count())));
    return task;
  }

  // A worker that comes later is called by its number.
  Process process_of(std::int64_t id) const {
    if (hosts_.is_worker(id)) return {Role::worker, static_cast<int>(id)};
    return {Role::server, static_cast<int>(id - hosts_.workers())};
  }

  std::vector<std::string> place_settings(std::int64_t id) const {
    const Process process = process_of(id);
    return {fmt::format("LOCKSTEP_ROLE={}", to_string(process.role)),
            fmt::format("LOCKSTEP_RANK={}", process.rank)};
  }

  void turn() {
    hosts_.wait();
    for (JobHost& host : hosts_.all()) hear(host);
    while (const auto number = signals_.next()) take_signal(*number);
    coordinator().note_workers(hosts_.are_workers_running());
    say_what_coordinator_said();
    look_after_members();
    if (deadline_ && Clock::now() > *deadline_) killed_ ? give_up() : kill_late();
  }

  void say_what_coordinator_said() {
    for (const std::string& line : coordinator().take_lines()) say(line);
  }

  void say(const std::string& line) const {
    writer_.write(STDERR_FILENO, fmt::format("lockstep: {}\n", line));
  }

  detail::JobCoordinator& coordinator() { return *coordinator_; }
  const detail::JobCoordinator& coordinator() const { return *coordinator_; }

  // Of a job that survives the loss of workers.
  bool survives() const {
    return !deadline_ && result_.stopped_by == 0 && coordinator().is_running() &&
           coordinator().survives_lost_workers();
  }

  void look_after_members() {
    for (const MembershipEvent& event : coordinator().take_events()) take(event);
    if (coordinator().has_failed()) return give_up_survival();
    show_first(coordinator().first_worker());
    for (const std::size_t host : survivors_.restarts().take_due(time_now()))
      if (JobHost* place = hosts_.place_for(hosts_.all()[host])) start_late_worker(*place);
    look_at_hosts_file();
    for (JobHost& host : hosts_.all()) fill(host);
    if (!survives()) end_late_workers();
  }

  static detail::Restarts::Time time_now() {
    return std::chrono::duration_cast<detail::Restarts::Time>(Clock::now().time_since_epoch());
  }

  void take(const MembershipEvent& event) {
    say(to_string(event));
    if (survivors_.take(event)) kill_process(event.member);
    if (event.kind == "resized") {
      min_workers_ = std::min<std::int64_t>(min_workers_, event.workers);
      start_more(event.workers);
    }
    if (event.kind == "waiting") replace_those_that_left();
  }

  // Members and those that will be: whoever is lost has another one in its place, whoever has left
  // has not.
  std::int64_t workers_to_be() {
    std::int64_t count = survivors_.guests() + survivors_.restarts().planned();
    for (const JobHost& host : hosts_.all()) {
      if (host.is_removed) continue;  // what it has leaves
      count += std::count_if(host.ids.begin(), host.ids.end(), [this](std::int64_t id) {
        return hosts_.is_worker(id) && !survivors_.is_released(id);
      });
    }
    return count;
  }

  // Those that are too many go by themselves.
  void start_more(std::int64_t wanted) {
    for (std::int64_t there = workers_to_be(); there < wanted; ++there)
      if (JobHost* host = hosts_.least_loaded()) start_late_worker(*host);
  }

  // The others wait for more.
  void replace_those_that_left() {
    for (std::int64_t there = workers_to_be(); there < min_workers_; ++there)
      if (const JobHost* host = hosts_.least_loaded())
        survivors_.restarts().plan(hosts_.number_of(*host), time_now());
  }

  // Somebody may change it while the job runs.
  void look_at_hosts_file() {
    if (!survives() || Clock::now() < next_look_) return;
    next_look_ = Clock::now() + kLookAtFile;
    try {
      if (const auto now = hosts_file_.changed()) take_hosts(*now);
    } catch (const Error& error) {
      say(fmt::format("the hosts file is left as it was: {}", error.what()));
    }
  }

  void take_hosts(const std::vector<HostSlots>& now) {
    for (JobHost& host : hosts_.all()) {
      const auto is_it = [&](const HostSlots& one) { return one.name == host.link.host(); };
      if (!host.is_spare && !host.is_removed && std::none_of(now.begin(), now.end(), is_it))
        take_away(host);
    }
    for (const HostSlots& one : now) {
      JobHost* known = hosts_.find(one.name);
      if (known == nullptr)
        add_host(one);
      else if (std::exchange(known->is_removed, false))
        take_back(*known);
    }
  }

  void take_away(JobHost& host) {
    say(fmt::format("{} is not among the hosts any more: its workers leave", host.link.host()));
    host.is_removed = true;
    for (const std::int64_t id : host.ids)
      if (hosts_.is_worker(id)) coordinator().release(id);
  }

  void take_back(JobHost& host) {
    host.fills = true;
    for (const std::int64_t id : host.ids) coordinator().keep(id);
  }

  void add_host(const HostSlots& host) {
    if (hosts_.is_one_machine())
      return say(
          fmt::format("{} cannot come: the job is on this machine alone, and listens to no "
                      "other (--coordinator)",
                      host.name));
    say(fmt::format("{} is one more host, for {} workers", host.name, host.slots));
    hosts_.connect_late(host);
    hosts_.all().back().fills = true;
  }

  // With as many as there are places, or were asked for.
  std::int64_t wanted_workers() const {
    const std::int64_t places = std::min<std::int64_t>(hosts_.places(), options_.max_workers);
    return options_.workers > 0 ? std::min<std::int64_t>(places, options_.workers) : places;
  }

  void fill(JobHost& host) {
    if (!host.fills || !host.is_usable() || !survives()) return;
    host.fills = false;
    while (host.has_free_slot() && workers_to_be() < wanted_workers()) start_late_worker(host);
  }

  void kill_process(std::int64_t id) {
    for (JobHost& host : hosts_.all())
      if (host.has(id)) host.link.send(detail::encode(detail::KillProcess{id}));
  }

  void show_first(std::int64_t id) {
    if (id == first_) return;
    if (const auto old = outputs_.find(first_); old != outputs_.end()) old->second.set_first(false);
    first_ = id;
    for (JobHost& host : hosts_.all())
      if (host.has(id)) output_for(host, id).set_first(true);
  }

  // The last worker that had the state is gone: now the losses count.
  void give_up_survival() {
    if (!coordinator().has_survived() || std::exchange(gave_up_, true)) return;
    survivors_.restarts().cancel();
    count_losses();
    if (result_.stopped_by == 0 && hosts_.running() > 0) end_others();
    end_late_workers();
  }

  void count_losses() {
    result_.lost_state = true;
    for (MemberEnd& end : result_.ends)
      if (end.role == Role::worker && !survivors_.was_late(end.id)) end.tolerated = false;
  }

  // Those that are not members yet, when there is nothing left to join.
  void end_late_workers() {
    survivors_.restarts().cancel();
    if (coordinator().survives_lost_workers() || !coordinator().has_survived()) return;
    for (const JobHost& host : hosts_.all())
      for (const std::int64_t id : host.ids)
        if (survivors_.is_late(id) && ended_late_.insert(id).second) kill_process(id);
  }

  // What the job can do without; another one takes its place.
  bool is_replaced(const MemberEnd& end, JobHost& host) {
    if (end.role != Role::worker) return false;
    if (end.signal == SIGKILL && result_.stopped_by == 0 && coordinator().is_run_done())
      return true;
    if (!survivors_.can_do_without(end, survives())) return false;
    if (!survives() || !survivors_.wants_replacement(end)) return true;
    say(end.str());
    ++host.losses;
    const JobHost* place = hosts_.place_for(host);
    if (place != &host && host.losses == JobHost::kManyLosses)
      say(fmt::format("{} has lost {} workers: others have their places", host.link.host(),
                      host.losses));
    if (place == nullptr || !survivors_.restarts().plan(hosts_.number_of(host), time_now()))
      say(fmt::format("nobody takes the place of worker {}", end.rank));
    return true;
  }

  // The workers have gone: all that they had to say is there. Where none of them ended well, there
  // was none who had the state, whatever the coordinator has heard of it.
  void hear_coordinator() {
    coordinator().end();
    for (const MembershipEvent& event : coordinator().take_events()) say(to_string(event));
    say_what_coordinator_said();
    const auto ended_well = [this](const MemberEnd& end) {
      return end.role == Role::worker && end.is_good() && !survivors_.is_going(end.id);
    };
    if (coordinator().has_survived() && result_.stopped_by == 0 && !coordinator().is_run_done() &&
        std::none_of(result_.ends.begin(), result_.ends.end(), ended_well))
      count_losses();
    result_.restarts = survivors_.restarts().count();
    result_.complaints = coordinator().complaints();
    result_.note_complaints();
  }

  // One that is there later than the job. A spare that cannot be had is none.
  void greet(JobHost& host) {
    const std::string why = hosts_.greet_late(host);
    if (!why.empty()) say(fmt::format("{} is not to be had: {}", host.link.host(), why));
    if (host.is_there) host.heartbeat.heard();
  }

  void hear(JobHost& host) {
    if (!host.is_there) return greet(host);
    if (host.link.is_closed() && host.ids.empty()) return;
    host.link.advance();
    try {
      while (const auto frame = host.link.next()) {
        host.heartbeat.heard();
        if (!host.ids.empty()) handle(host, *frame);
      }
    } catch (const Corrupt& error) {
      throw detail::not_understood(host, error);
    }
    while (const auto remark = host.link.next_remark())
      if (!remark->empty())
        writer_.write(STDERR_FILENO, fmt::format("[{}] {}\n", host.link.host(), *remark));
    if (host.link.is_closed()) return lose(host, host.link.why_closed());
    if (host.heartbeat.tick() && host.heartbeat.is_late())
      lose(host, fmt::format("nothing was heard from its host for {:.1f} s: the network is cut, or "
                             "ssh or the agent hangs",
                             std::chrono::duration<double>(hosts_.heartbeat_deadline()).count()));
  }

  void handle(JobHost& host, const Frame& frame) {
    if (frame.is<detail::StartFailed>())
      return fail_start(host, frame.as<detail::StartFailed>().text);
    if (frame.is<detail::SignalFrame>()) return stop(frame.as<detail::SignalFrame>().number);
    if (frame.is<detail::ProcessOutput>()) {
      const auto said = frame.as<detail::ProcessOutput>();
      show_first(coordinator().first_worker());  // was known before it could say this
      output_for(host, said.id).add(said.stream, said.bytes);
    } else if (frame.is<detail::ProcessEnd>()) {
      take_end(host, frame.as<detail::ProcessEnd>());
    }
  }

  // A job that is under way goes on without that host.
  void fail_start(JobHost& host, const std::string& why) {
    if (!survives())
      throw NotFound("launch: {}{}", hosts_.is_one_machine() ? "" : host.link.host() + ": ", why);
    host.is_removed = true;
    for (const std::int64_t id : std::vector<std::int64_t>(host.ids))
      if (survivors_.is_late(id)) lose(host, id, why);
  }

  // One that was lost with its host may be heard of when the host is again.
  void take_end(JobHost& host, const detail::ProcessEnd& its) {
    if (!host.has(its.id)) return;
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
    for (JobHost& host : hosts_.all())
      lose(host, fmt::format("it did not end within {:.1f} s of being killed",
                             std::chrono::duration<double>(kKillTime).count()));
  }

  void lose(JobHost& host, const std::string& why) {
    for (const std::int64_t id : std::vector<std::int64_t>(host.ids)) lose(host, id, why);
  }

  void lose(JobHost& host, std::int64_t id, const std::string& why) {
    MemberEnd end = end_of(id);
    end.lost = why;
    note(host, std::move(end));
  }

  void note(JobHost& host, MemberEnd end) {
    detail::WorkerOutput& output = output_for(host, end.id);
    output.finish();
    end.last_lines = output.last_lines();
    end.host = hosts_.is_one_machine() ? "" : host.link.host();
    host.remove(end.id);
    coordinator().note_ended(end.id);
    end.tolerated = is_tolerated(end) || is_replaced(end, host);
    note_early_loss(end);
    const int signal = end.stopped_by();
    const bool is_good = end.is_good(), is_tolerated = end.tolerated;
    if (is_tolerated && end.role == Role::server) say_tolerated(end, host.link.host());
    result_.ends.push_back(std::move(end));
    if (is_tolerated) return;
    if (signal != 0)
      stop_with_worker(signal);
    else if (!is_good)
      end_others();
    else if (!hosts_.are_workers_running())
      end_servers();
  }

  // The first that goes, by no fault of the program.
  void note_early_loss(const MemberEnd& end) {
    if (end.role != Role::worker || end.is_good() || end.tolerated ||
        coordinator().has_survived() || deadline_)
      return;
    result_.lost_early = result_.stopped_by == 0 && (end.signal == SIGKILL || !end.lost.empty());
  }

  // Whether the job goes on as if nothing had happened. A server that must be ended when all is
  // done takes nothing from the result.
  bool is_tolerated(const MemberEnd& end) const {
    if (end.role != Role::server || end.is_good() || result_.stopped_by != 0) return false;
    return workers_done_ || (!deadline_ && coordinator().tolerates_lost_servers());
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

  // The coordinator tells them that all workers have left.
  void end_servers() {
    if (deadline_ || hosts_.running() == 0) return;
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
    hosts_.send(detail::JobOver{});
  }

  detail::WorkerOutput& output_for(const JobHost& host, std::int64_t id) {
    const auto print = [this](int stream, std::string_view bytes) { writer_.write(stream, bytes); };
    const Process process = process_of(id);
    const auto found = outputs_.find(id);
    if (found != outputs_.end()) return found->second;
    detail::RankLog log;
    if (!options_.log_folder.empty())
      log = detail::RankLog(options_.log_folder, process.role, process.rank);
    return outputs_
        .try_emplace(id, process.role, process.rank,
                     hosts_.is_one_machine() ? "" : host.link.host(), print, std::move(log))
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
    hosts_.wake();
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
    hosts_.wake();
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

  void signal_all(int number) { hosts_.send(detail::SignalFrame{number}); }

  const detail::ThreadName name_{"lockstep-launch"};
  const LaunchOptions& options_;
  std::string secret_;
  const struct { std::string store, id; } job_{options_.store, make_secret().substr(0, kIdLength)};
  const detail::SignalQueue signals_;
  detail::JobHosts hosts_;
  std::optional<detail::JobCoordinator> coordinator_;
  const detail::InterruptibleWriter writer_{signals_.fd(), [this] { return goes_on_unread(); }};
  std::map<std::int64_t, detail::WorkerOutput> outputs_;
  LaunchResult result_;
  bool was_asked_ = false, killed_ = false, gave_up_ = false;
  bool workers_done_ = false;  // all of them, well
  detail::Survivors survivors_{options_.max_restarts};
  std::int64_t first_ = 0;  // the first worker
  std::int64_t min_workers_ = options_.min_workers;
  std::set<std::int64_t> ended_late_;
  detail::HostsFile hosts_file_{options_.hosts_file};
  Clock::time_point next_look_ = Clock::now();
  int last_signal_ = 0;
  std::optional<Clock::time_point> deadline_, read_until_;
};

}  // namespace

LaunchResult launch(const LaunchOptions& options) {
  detail::check_options(options);
  if (!options.store.empty())
    open_store(options.store)->get("lockstep", Clock::now() + kReachStore);
  if (!options.log_folder.empty()) detail::make_log_folder(options.log_folder);
  return Launcher(options).run();
}

}  // namespace lockstep::cluster
