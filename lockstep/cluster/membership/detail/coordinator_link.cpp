// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/coordinator_link.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster::detail {
namespace {

using comm::Clock;

constexpr auto kLook = std::chrono::milliseconds(50);
constexpr auto kLookAtStore = std::chrono::seconds(1);
// For the store, and for a coordinator that may be stopped, while others may be there.
constexpr auto kTry = std::chrono::seconds(3);

std::optional<StoredJob> stored_job(const RendezvousOptions& options) {
  if (!options.store) return {};
  return StoredJob(options.store, options.job);
}

}  // namespace

// Whoever comes later than others may have another coordinator than they had.
CoordinatorLink::CoordinatorLink(const RendezvousOptions& options)
    : options_(options), job_(stored_job(options)) {
  if (job_) leader_ = job_->await_leader(options.timeout);
  if (leader_ && options.is_late) options_.coordinator = leader_->endpoint;
  now_ = std::make_shared<Conversation>(options_);
}

CoordinatorLink::~CoordinatorLink() {
  watcher_ = {};
  now_.reset();
}

std::shared_ptr<Conversation> CoordinatorLink::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void CoordinatorLink::leave() { now()->leave(); }

void CoordinatorLink::keep(std::function<Rejoin()> own) {
  if (!job_) return;
  {
    const std::lock_guard lock(mutex_);
    own_ = std::move(own);
  }
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  pthread_setname_np(watcher_.native_handle(), "coordinators");
}

void CoordinatorLink::watch(const std::stop_token& stop) {
  std::mutex own;
  std::unique_lock lock(own);
  std::condition_variable_any never;
  while (!stop.stop_requested() && !gave_up_) {
    never.wait_for(lock, stop, kLook, [] { return false; });
    try {
      if (!stop.stop_requested() && !is_in_charge(*now())) replace(stop);
    } catch (const Error&) {
      return;  // it has said why the job is over
    }
  }
}

// One that is stopped, or cut off from us, keeps its connection and loses its lease.
bool CoordinatorLink::is_in_charge(Conversation& conversation) {
  try {
    conversation.raise_failure();
  } catch (const CoordinatorGone&) {
    return false;
  }
  if (!conversation.is_connected()) return false;
  if (Clock::now() < next_look_) return true;
  next_look_ = Clock::now() + kLookAtStore;
  try {
    const auto leader = job_->leader(Clock::now() + kTry);
    if (leader && leader == leader_) return true;
  } catch (const Error&) {
    return true;  // nobody knows better
  }
  conversation.abort("rendezvous: the coordinator has lost its lease");
  return false;
}

void CoordinatorLink::replace(const std::stop_token& stop) {
  const comm::Endpoint lost = now()->coordinator();
  const auto deadline = Clock::now() + options_.timeout;
  std::string last;
  while (!stop.stop_requested() && Clock::now() < deadline) {
    try {
      if (find_next()) return;
    } catch (const comm::Refused&) {
      return give_up(std::current_exception());
    } catch (const JobEnded&) {
      return give_up(std::current_exception());
    } catch (const Error& error) {
      last = error.what();
    }
    std::this_thread::sleep_for(kLook);
  }
  give_up(std::make_exception_ptr(comm::PeerLost(
      fmt::format("membership: the coordinator at {} is gone, and there was no other within "
                  "{:.1f} s: {}",
                  to_string(lost), std::chrono::duration<double>(options_.timeout).count(), last),
      -1, lost.host, "rendezvous")));
}

// False: there is none yet, or it is this process and to be found the next time.
bool CoordinatorLink::find_next() {
  const auto until = Clock::now() + kTry;
  if (const auto leader = job_->leader(until)) {
    connect(*leader);
    return true;
  }
  const auto record = job_->record(until);
  if (!record)
    throw comm::Refused(
        fmt::format("membership: the coordinator at {} was lost before the job could go on with "
                    "another one",
                    to_string(now()->coordinator())));
  if (record->is_over) throw JobEnded(*record);
  elect(*record);
  return false;
}

void CoordinatorLink::connect(const Leader& leader) {
  RendezvousOptions options = options_;
  options.coordinator = leader.endpoint;
  options.timeout = kTry;
  std::shared_ptr<Conversation> made;
  try {
    made = std::make_shared<Conversation>(options);
  } catch (const comm::Refused& error) {
    throw IoError("{}", error.what());  // somebody else has its port by now
  }
  made->ask<Noted>(own_(), kTry, "the coordinator's answer");
  leader_ = leader;
  next_look_ = Clock::now() + kLookAtStore;
  const std::lock_guard lock(mutex_);
  now_ = std::move(made);
  changed_.notify_all();
}

// All members that miss the coordinator do this; the store lets one of them win.
void CoordinatorLink::elect(const JobRecord& record) {
  elected_.reset();
  CoordinatorOptions options;
  options.listen.host = listen_host(record);
  options.ports = options_.ports;
  options.secret = options_.secret;
  options.workers = record.workers;
  options.servers = record.servers;
  options.heartbeat = record.heartbeat;
  options.patience = record.patience;
  options.min_workers = record.min_workers;
  options.max_workers = record.max_workers;
  auto coordinator = std::make_unique<Coordinator>(options);
  const auto length = lease_length(record.heartbeat);
  auto leadership =
      Leadership::campaign(*job_, coordinator->endpoint(), length,
                           Clock::now() + std::max<std::chrono::milliseconds>(kTry, length));
  if (!leadership || !leadership->former() || leadership->former()->is_over) return;
  coordinator->lead(std::move(leadership));
  elected_ = std::make_unique<CoordinatorThread>(std::move(coordinator));
}

// Where the others find this process: at the address that the last coordinator was reached from.
std::string CoordinatorLink::listen_host(const JobRecord& record) const {
  const std::string own = now()->address();
  const auto hosts = record.membership.hosts_of(Role::worker);
  const bool is_one_host =
      std::all_of(hosts.begin(), hosts.end(), [&](const auto& one) { return one == hosts[0]; });
  if (is_one_host || !comm::is_loopback(own)) return own;
  return reachable_addresses(options_.interface, "").at(0);
}

void CoordinatorLink::give_up(std::exception_ptr why) {
  const std::lock_guard lock(mutex_);
  gave_up_ = std::move(why);
  changed_.notify_all();
}

std::shared_ptr<Conversation> CoordinatorLink::next(const std::shared_ptr<Conversation>& gone,
                                                    const CoordinatorGone& why) {
  std::unique_lock lock(mutex_);
  if (own_)
    changed_.wait_for(lock, options_.timeout + 4 * kTry, [&] { return now_ != gone || gave_up_; });
  if (now_ != gone) return now_;
  if (gave_up_) std::rethrow_exception(gave_up_);
  throw comm::PeerLost(why.what(), -1, why.host(), why.operation());
}

}  // namespace lockstep::cluster::detail
