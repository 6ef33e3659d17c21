// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/cluster/launch/detail/job_hosts.h"
#include "lockstep/cluster/launch/launch.h"
#include "lockstep/cluster/membership/coordinator.h"

namespace lockstep::cluster::detail {

// A launcher's coordinator, in a thread of its own. What it says, and what happens to the members,
// is kept until the launcher asks. In a job with a store another one may be in its place from some
// time on, whose decisions are then read there.
class JobCoordinator {
 public:
  // Serves from now on. Members from `next_id` on are numbered here, those that the launcher starts
  // as well as those that come by themselves. Throws as Coordinator does.
  JobCoordinator(CoordinatorOptions options, std::int64_t next_id);
  // Of a job whose members find this coordinator at `host`, and take its place when it is gone.
  // Throws IoError too.
  JobCoordinator(CoordinatorOptions options, std::int64_t next_id, const StoredJob& job,
                 const std::string& host);

  comm::Endpoint endpoint() const { return coordinator_->endpoint(); }
  std::int64_t new_id();
  std::vector<std::string> take_lines();
  std::vector<MembershipEvent> take_events();
  // What it has to complain about, the members hear and say.
  bool has_failed() const { return has_failed_; }
  bool is_running() const { return is_running_; }
  // It takes what was said last, and ends.
  void end() { thread_ = {}; }

  // As Coordinator's, of whoever is it now.
  bool tolerates_lost_servers() const;
  bool survives_lost_workers() const;
  bool has_survived() const { return coordinator_->has_survived(); }
  bool is_run_done() const;
  std::int64_t first_worker() const;
  void note_ended(std::int64_t id);
  // Whether processes of the launcher's own are workers of the job.
  void note_workers(bool are_there) { has_workers_ = are_there; }
  void release(std::int64_t id);
  void keep(std::int64_t id);
  std::vector<Complaint> complaints() const { return coordinator_->complaints(); }

 private:
  void prepare(CoordinatorOptions options);
  void start();
  void run(const std::stop_token& stop);
  void follow(const std::stop_token& stop, const std::string& why);
  void take(const JobRecord& record);
  std::vector<std::int64_t> releases() const;
  void say(const std::string& line);

  std::atomic<std::int64_t> next_id_;
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;  // guarded by it
  std::vector<MembershipEvent> events_;
  std::int64_t last_event_ = 0;
  std::optional<JobRecord> record_;  // of another coordinator, once it is followed
  std::set<std::int64_t> releases_;  // until they have ended, whoever coordinates
  std::atomic<bool> has_failed_ = false, is_running_ = true, has_workers_ = true;
  std::optional<StoredJob> job_;
  std::string secret_;
  std::chrono::milliseconds patience_{0};
  std::optional<Coordinator> coordinator_;
  std::jthread thread_;  // after what it uses
};

// Where the members of the job will meet.
CoordinatorOptions coordinator_options(const LaunchOptions& options, const JobHosts& hosts,
                                       const std::string& secret);
// At which every member of the job finds it.
std::string coordinator_host(JobHosts& hosts);

}  // namespace lockstep::cluster::detail
