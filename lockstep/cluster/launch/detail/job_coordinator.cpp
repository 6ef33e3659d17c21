// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/launch/detail/job_coordinator.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/cluster/launch/detail/job_follower.h"
#include "lockstep/cluster/membership/rendezvous.h"

namespace lockstep::cluster::detail {
namespace {

using comm::Clock;

constexpr auto kLook = std::chrono::milliseconds(200);
constexpr auto kTry = std::chrono::seconds(5);  // to reach the store, or a coordinator

JobFollower::Calls calls_by(const std::string& secret) {
  return {[secret](const comm::Endpoint& leader) {
            try {
              query_membership(leader, secret, kTry);
              return true;
            } catch (const Error&) {
              return false;
            }
          },
          [secret](const comm::Endpoint& leader, std::int64_t id) {
            dismiss_worker(leader, secret, id, kTry);
          }};
}

}  // namespace

CoordinatorOptions coordinator_options(const LaunchOptions& options, const JobHosts& hosts,
                                       const std::string& secret) {
  CoordinatorOptions own;
  own.secret = secret;
  own.workers = hosts.workers();
  own.servers = options.servers;
  own.timeout = options.timeout;
  own.heartbeat = options.heartbeat.count() > 0 ? options.heartbeat : hosts.heartbeat_deadline();
  own.min_workers = options.min_workers;
  own.max_workers = options.max_workers;
  own.patience = options.timeout;
  own.listen.port = options.coordinator.port;
  own.ports = options.ports;
  if (!hosts.is_one_machine())
    own.listen.host = hosts.may_come_by_v6() ? "::" : "0.0.0.0";
  else if (!options.coordinator.host.empty())
    own.listen.host = options.coordinator.host;
  return own;
}

std::string coordinator_host(JobHosts& hosts) {
  for (const JobHost& host : hosts.all())
    if (!is_this_machine(host.link.host())) return hosts.address_for(host);
  return hosts.address_for(hosts.all()[0]);
}

JobCoordinator::JobCoordinator(CoordinatorOptions options, std::int64_t next_id)
    : next_id_(next_id) {
  prepare(std::move(options));
  start();
}

JobCoordinator::JobCoordinator(CoordinatorOptions options, std::int64_t next_id,
                               const StoredJob& job, const std::string& host)
    : next_id_(next_id), job_(job), secret_(options.secret), patience_(options.patience) {
  const auto length = lease_length(options.heartbeat);
  prepare(std::move(options));
  auto leadership =
      Leadership::campaign(job, {host, endpoint().port}, length, Clock::now() + 2 * kTry);
  if (!leadership) throw IoError("store: {}: the job has a coordinator", job.store().name());
  coordinator_->lead(std::move(leadership));
  start();
}

void JobCoordinator::prepare(CoordinatorOptions options) {
  options.new_id = [this] { return new_id(); };
  options.on_event = [this](const MembershipEvent& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    last_event_ = event.number;
  };
  options.log = [this](const std::string& line) { say(line); };
  coordinator_.emplace(options);
}

void JobCoordinator::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  pthread_setname_np(thread_.native_handle(), "coordinator");
}

void JobCoordinator::run(const std::stop_token& stop) {
  try {
    coordinator_->run(stop);
  } catch (const Deposed& error) {
    follow(stop, error.what());
  } catch (const std::exception&) {
    has_failed_ = true;
  }
  is_running_ = false;
}

// What another coordinator decides, until the job is over.
void JobCoordinator::follow(const std::stop_token& stop, const std::string& why) {
  say(why + "; a worker takes its place");
  {
    const std::lock_guard lock(mutex_);
    record_.emplace();
  }
  JobFollower follower(*job_, patience_ + kTry, calls_by(secret_));
  while (!stop.stop_requested() && !has_failed_) {
    const JobFollower::News news = follower.look(Clock::now(), has_workers_);
    if (news.record) take(*news.record);
    if (!news.line.empty()) say(news.line);
    if (news.state == JobFollower::State::failed) has_failed_ = true;
    if (news.state != JobFollower::State::goes_on) return;
    follower.release(releases(), Clock::now());
    std::this_thread::sleep_for(kLook);
  }
}

void JobCoordinator::say(const std::string& line) {
  const std::lock_guard lock(mutex_);
  lines_.push_back(line);
}

void JobCoordinator::take(const JobRecord& record) {
  const std::lock_guard lock(mutex_);
  record_ = record;
  for (const MembershipEvent& event : record.events)
    if (event.number > last_event_) {
      events_.push_back(event);
      last_event_ = event.number;
    }
  if (!record.failure.empty()) has_failed_ = true;
}

std::vector<std::int64_t> JobCoordinator::releases() const {
  const std::lock_guard lock(mutex_);
  return {releases_.begin(), releases_.end()};
}

std::int64_t JobCoordinator::new_id() {
  const std::lock_guard lock(mutex_);
  if (record_ && !record_->used_ids.empty())
    next_id_ = std::max<std::int64_t>(next_id_, record_->used_ids.back() + 1);
  return next_id_++;
}

bool JobCoordinator::tolerates_lost_servers() const {
  return coordinator_->tolerates_lost_servers();
}

bool JobCoordinator::survives_lost_workers() const {
  const std::lock_guard lock(mutex_);
  return record_ ? has_survived() && !record_->is_over && !has_failed_
                 : coordinator_->survives_lost_workers();
}

bool JobCoordinator::is_run_done() const {
  const std::lock_guard lock(mutex_);
  return record_ ? record_->is_run_done() : coordinator_->is_run_done();
}

std::int64_t JobCoordinator::first_worker() const {
  const std::lock_guard lock(mutex_);
  return record_ && !record_->membership.members.empty() ? record_->membership.members[0].id
                                                         : coordinator_->first_worker();
}

void JobCoordinator::release(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  releases_.insert(id);
  if (!record_) coordinator_->release(id);
}

void JobCoordinator::note_ended(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  releases_.erase(id);
  coordinator_->note_ended(id);
}

void JobCoordinator::keep(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  releases_.erase(id);
  coordinator_->keep(id);
}

std::vector<std::string> JobCoordinator::take_lines() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lines_, {});
}

std::vector<MembershipEvent> JobCoordinator::take_events() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

}  // namespace lockstep::cluster::detail
