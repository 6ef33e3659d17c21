// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/cluster/detail/heartbeat.h"
#include "lockstep/cluster/launch/detail/host_link.h"
#include "lockstep/cluster/launch/detail/signal_queue.h"
#include "lockstep/cluster/launch/launch.h"

namespace lockstep::cluster::detail {

// One host of a job, and the processes on it.
struct JobHost {
  HostLink link;
  bool is_local = false;
  HeartbeatMonitor heartbeat;
  std::vector<std::int64_t> ids = {};  // of processes that are not known to have ended
  bool is_there = false;
  comm::Deadline expected_by = {};  // to answer, where it was not there from the beginning
  std::string our_address = {};     // as seen from there
  // Places for workers, each with its share of the cores: who has it; -1: nobody.
  std::vector<std::int64_t> slots = {};
  bool is_spare = false;    // nobody was to run there from the beginning
  bool is_removed = false;  // from the hosts file: nobody else is to run there
  bool fills = false;       // workers are to be started in its free places
  int losses = 0;           // of its workers

  bool has_free_slot() const;
  // So often that others are better: where there are any.
  bool has_failed_often() const { return losses >= kManyLosses; }
  static constexpr int kManyLosses = 3;
  // Whether its agent is there and is heard.
  bool is_usable() const {
    return is_there && !is_removed && !link.is_closed() && !heartbeat.is_late();
  }

  bool has(std::int64_t id) const;
  // -1: a server, or one worker more than there are places.
  int slot_of(std::int64_t id) const;
  // A worker that comes later has the place of one that has gone.
  void add_late(std::int64_t id);
  void remove(std::int64_t id);
};

// The hosts of a job, with an agent on each. While it lives, each hears from us all the time.
class JobHosts {
 public:
  // Connects to all. To be made before there are threads. Throws InvalidArgument, IoError.
  JobHosts(const LaunchOptions& options, const SignalQueue& signals);
  // All at once, before each is waited for.
  ~JobHosts() { hang_up(); }
  JobHosts(const JobHosts&) = delete;
  JobHosts& operator=(const JobHosts&) = delete;

  // Until each has answered, but for spares. Returns the signal that asked us to stop meanwhile, or
  // 0. Throws IoError, Refused, Timeout.
  int await_all();

  // A host stays where it is.
  std::deque<JobHost>& all() { return hosts_; }
  const std::deque<JobHost>& all() const { return hosts_; }
  int workers() const { return workers_; }
  bool is_one_machine() const { return is_one_machine_; }
  std::chrono::milliseconds heartbeat_deadline() const { return heartbeat_deadline_; }
  // Where processes of this host find the launcher.
  std::string address_for(const JobHost& host) const;
  bool may_come_by_v6() const;
  // With the fewest workers for its places, of those whose agent is there; null: none is.
  JobHost* least_loaded();
  // For a worker in the place of one of this host: there, unless the host is gone or has failed too
  // often; then on a spare, or where a place is free. Null: nowhere.
  JobHost* place_for(JobHost& lost);
  // One more. It answers later (greet_late). Throws InvalidArgument for this machine.
  void connect_late(const HostSlots& slots);
  JobHost* find(const std::string& name);
  std::size_t number_of(const JobHost& host) const;  // in all()
  // For workers, on hosts that are there, but for spares.
  std::int64_t places() const;
  // Of one that was not there from the beginning, when it has answered or cannot. Says why it
  // cannot; empty: it can, or has not answered yet.
  std::string greet_late(JobHost& host);

  void wait() const;  // for something to happen, not long
  std::size_t running() const;
  bool are_workers_running() const;
  // Else it is a server: ids are those of the first workers, of the servers, and of late workers.
  bool is_worker(std::int64_t id) const {
    return id < workers_ || id >= workers_ + options_.servers;
  }
  template <class T>
  void send(const T& frame) {
    const std::lock_guard lock(mutex_);
    for (JobHost& host : hosts_) host.link.send(encode(frame));
  }
  void wake() const;
  void hang_up();
  void close();

 private:
  void connect(const std::vector<HostSlots>& all);
  void connect_spares(bool local);
  void add(const HostSlots& slots, bool local, int first_worker,
           const std::vector<std::int64_t>& servers);
  void send_heartbeats(const std::stop_token& stop);
  int greet(JobHost& host);
  static void take_hello(JobHost& host, const Frame& frame);
  [[noreturn]] void fail_unanswered() const;
  std::string unanswered() const;

  const LaunchOptions& options_;
  const SignalQueue& signals_;
  std::chrono::milliseconds heartbeat_deadline_;  // of a host that is lost
  bool is_one_machine_ = true;
  int workers_ = 0;
  std::mutex mutex_;  // of how many there are
  std::deque<JobHost> hosts_;
  std::jthread heartbeat_thread_;  // after what it uses
};

IoError not_understood(const JobHost& host, const Corrupt& error);

}  // namespace lockstep::cluster::detail
