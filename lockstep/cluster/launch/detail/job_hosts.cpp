// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/job_hosts.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "lockstep/base/host_name.h"
#include "lockstep/base/version.h"
#include "lockstep/cluster/launch/detail/launch_hosts.h"
#include "lockstep/cluster/launch/detail/ssh_command.h"
#include "lockstep/comm/errors.h"

namespace lockstep::cluster::detail {
namespace {

constexpr int kLookEveryMs = 100;
constexpr std::int64_t kNobody = -1;
constexpr int kNoWorkers = -1;  // of a host: its places are free

}  // namespace

bool JobHost::has(std::int64_t id) const {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

bool JobHost::has_free_slot() const {
  return std::find(slots.begin(), slots.end(), kNobody) != slots.end();
}

int JobHost::slot_of(std::int64_t id) const {
  const auto found = std::find(slots.begin(), slots.end(), id);
  return found == slots.end() ? -1 : static_cast<int>(found - slots.begin());
}

void JobHost::add_late(std::int64_t id) {
  ids.push_back(id);
  const auto free = std::find(slots.begin(), slots.end(), kNobody);
  if (free != slots.end()) *free = id;
}

void JobHost::remove(std::int64_t id) {
  std::erase(ids, id);
  std::replace(slots.begin(), slots.end(), id, kNobody);
}

IoError not_understood(const JobHost& host, const Corrupt& error) {
  return IoError("launch: {}: the agent is not understood: {}", host.link.host(), error.what());
}

JobHosts::JobHosts(const LaunchOptions& options, const SignalQueue& signals)
    : options_(options),
      signals_(signals),
      heartbeat_deadline_(detail::heartbeat_deadline(options.timeout)) {
  const std::vector<HostSlots> all = hosts_of(options);
  check_process_limits(all, options.servers);
  for (const auto* list : {&all, &options.spares})
    for (const HostSlots& host : *list)
      is_one_machine_ = is_one_machine_ && is_this_machine(host.name);
  connect(all);
  heartbeat_thread_ = std::jthread([this](const std::stop_token& stop) { send_heartbeats(stop); });
  pthread_setname_np(heartbeat_thread_.native_handle(), "heartbeat");
}

// The agent on this machine first: it is forked, and holds what is open by then.
void JobHosts::connect(const std::vector<HostSlots>& all) {
  for (const HostSlots& host : all) workers_ += host.slots;
  for (const bool local : {true, false}) {
    int first = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (is_this_machine(all[i].name) == local)
        add(all[i], local, first, servers_of(i, all.size(), workers_, options_.servers));
      first += all[i].slots;
    }
    connect_spares(local);
  }
}

void JobHosts::connect_spares(bool local) {
  for (const HostSlots& spare : options_.spares) {
    if (is_this_machine(spare.name) != local) continue;
    add(spare, local, kNoWorkers, {});
    hosts_.back().is_spare = true;
  }
}

void JobHosts::add(const HostSlots& slots, bool local, int first_worker,
                   const std::vector<std::int64_t>& servers) {
  AgentOptions agent;
  agent.timeout = options_.timeout;
  agent.grace = options_.grace;
  const sigset_t& mask = signals_.mask_before();
  JobHost host{local ? HostLink::fork_agent(slots.name, agent, mask)
                     : HostLink::run_command(slots.name, ssh_command(options_, slots.name), mask),
               local, HeartbeatMonitor(heartbeat_deadline_)};
  for (int i = 0; i < slots.slots; ++i)
    host.slots.push_back(first_worker == kNoWorkers ? kNobody : first_worker + i);
  if (first_worker != kNoWorkers) host.ids = host.slots;
  host.ids.insert(host.ids.end(), servers.begin(), servers.end());
  host.expected_by = comm::Clock::now() + options_.timeout;
  const std::lock_guard lock(mutex_);
  hosts_.push_back(std::move(host));
}

// In a thread of its own, since the other may be held up by whoever reads our output.
void JobHosts::send_heartbeats(const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any never;
  do {
    send(Alive{});
    never.wait_for(lock, stop, HeartbeatMonitor::interval(heartbeat_deadline_),
                   [] { return false; });
  } while (!stop.stop_requested());
}

int JobHosts::await_all() {
  const auto deadline = comm::Clock::now() + options_.timeout;
  const auto is_there = [](const JobHost& host) { return host.is_there || host.is_spare; };
  while (!std::all_of(hosts_.begin(), hosts_.end(), is_there)) {
    wait();
    if (const auto number = signals_.next()) return *number;
    for (JobHost& host : hosts_)
      if (const int signal = host.is_spare ? 0 : greet(host); signal != 0) return signal;
    if (comm::Clock::now() >= deadline) fail_unanswered();
  }
  return 0;
}

// Returns the signal that ended its agent before it could say so.
int JobHosts::greet(JobHost& host) {
  host.link.advance();
  try {
    if (const auto frame = host.is_there ? std::nullopt : host.link.next())
      take_hello(host, *frame);
  } catch (const Corrupt& error) {
    throw not_understood(host, error);
  }
  while (host.link.next_remark()) {
  }
  if (host.is_there || !host.link.is_closed()) return 0;
  const int signal = host.link.stopped_by();
  if (signal == 0) throw IoError("launch: {}: {}", host.link.host(), host.link.why_closed());
  return signal;
}

void JobHosts::take_hello(JobHost& host, const Frame& frame) {
  if (!frame.is<AgentHello>()) throw Corrupt("it does not say hello first");
  const auto hello = frame.as<AgentHello>();
  if (hello.version != version())
    throw comm::Refused(fmt::format("launch: {}: has lockstep {}, this is {}", host.link.host(),
                                    hello.version, version()));
  host.our_address = hello.launcher_address;
  host.is_there = true;
}

std::string JobHosts::unanswered() const {
  return fmt::format("did not answer within {:.1f} s",
                     std::chrono::duration<double>(options_.timeout).count());
}

void JobHosts::fail_unanswered() const {
  std::string names;
  for (const JobHost& host : hosts_)
    if (!host.is_there && !host.is_spare) names += (names.empty() ? "" : ", ") + host.link.host();
  throw comm::Timeout(fmt::format("launch: {}: {}", names, unanswered()), -1, names, "launch");
}

std::string JobHosts::address_for(const JobHost& host) const {
  if (!options_.coordinator.host.empty()) return options_.coordinator.host;
  if (is_one_machine_) return "127.0.0.1";
  if (!host.is_local && !host.our_address.empty()) return host.our_address;
  for (const JobHost& other : hosts_)  // a worker here must be reached from there
    if (!other.is_local && !other.our_address.empty()) return other.our_address;
  return own_host_name();
}

bool JobHosts::may_come_by_v6() const {
  return std::any_of(hosts_.begin(), hosts_.end(),
                     [&](const JobHost& host) { return may_be_v6(address_for(host)); });
}

JobHost* JobHosts::least_loaded() {
  const auto load = [](const JobHost& host) {
    return static_cast<double>(host.ids.size()) /
           static_cast<double>(std::max<std::size_t>(1, host.slots.size()));
  };
  JobHost* best = nullptr;
  for (JobHost& host : hosts_)
    if (host.is_usable() && !host.is_spare && (best == nullptr || load(host) < load(*best)))
      best = &host;
  return best;
}

JobHost* JobHosts::place_for(JobHost& lost) {
  const auto is_good = [](const JobHost& host) {
    return host.is_usable() && !host.has_failed_often();
  };
  if (is_good(lost)) return &lost;
  for (const bool is_spare : {true, false})
    for (JobHost& host : hosts_)
      if (host.is_spare == is_spare && is_good(host) && host.has_free_slot()) return &host;
  return lost.is_usable() ? &lost : nullptr;
}

JobHost* JobHosts::find(const std::string& name) {
  for (JobHost& host : hosts_)
    if (host.link.host() == name && !host.link.is_closed()) return &host;
  return nullptr;
}

std::size_t JobHosts::number_of(const JobHost& host) const {
  std::size_t number = 0;
  while (&hosts_[number] != &host) ++number;
  return number;
}

std::int64_t JobHosts::places() const {
  std::int64_t places = 0;
  for (const JobHost& host : hosts_)
    if (host.is_usable() && !host.is_spare) places += std::ssize(host.slots);
  return places;
}

// One on this machine would have to be forked, which threads do not allow.
void JobHosts::connect_late(const HostSlots& slots) {
  if (is_this_machine(slots.name))
    throw InvalidArgument("launch: {}: this machine has to be among the hosts from the beginning",
                          slots.name);
  add(slots, false, kNoWorkers, {});
}

std::string JobHosts::greet_late(JobHost& host) {
  if (host.is_there || host.is_removed) return {};
  try {
    greet(host);
    if (host.is_there || (!host.link.is_closed() && comm::Clock::now() < host.expected_by))
      return {};
    host.is_removed = true;
    return host.link.is_closed() ? host.link.why_closed() : unanswered();
  } catch (const Error& error) {
    host.is_removed = true;
    return error.what();
  }
}

void JobHosts::wait() const {
  std::vector<pollfd> watched{{signals_.fd(), POLLIN, 0}};
  for (const JobHost& host : hosts_) host.link.watch(watched);
  ::poll(watched.data(), watched.size(), kLookEveryMs);
}

std::size_t JobHosts::running() const {
  std::size_t count = 0;
  for (const JobHost& host : hosts_) count += host.ids.size();
  return count;
}

bool JobHosts::are_workers_running() const {
  return std::any_of(hosts_.begin(), hosts_.end(), [&](const JobHost& host) {
    return std::any_of(host.ids.begin(), host.ids.end(),
                       [&](std::int64_t id) { return is_worker(id); });
  });
}

void JobHosts::wake() const {
  for (const JobHost& host : hosts_) host.link.wake();
}

void JobHosts::hang_up() {
  for (JobHost& host : hosts_) host.link.hang_up();
}

void JobHosts::close() {
  for (JobHost& host : hosts_) host.link.close();
}

}  // namespace lockstep::cluster::detail
