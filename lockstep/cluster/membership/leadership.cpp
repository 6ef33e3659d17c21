// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/hmac.h"
#include "lockstep/cluster/detail/fields.h"
#include "lockstep/cluster/membership/stored_job.h"

namespace lockstep::cluster {
namespace {

using comm::Clock;

constexpr const char *kLeader = "leader", *kRecord = "record", *kRegistry = "registry/";
// Of a job of which nobody is left, the store forgets what it kept after so long.
constexpr std::chrono::hours kRemembered{24};
constexpr std::chrono::minutes kRemind{10};
constexpr int kKeptAlive = 3;  // in the length of a lease
constexpr std::chrono::seconds kFarewell{1};
constexpr std::size_t kMostEvents = 200;

std::string to_text(const RegistryEntry& entry) {
  return detail::FieldWriter().number(entry.version).text(entry.bytes).bytes();
}

RegistryEntry entry_from(const std::string& text) {
  detail::FieldReader reader(text);
  const std::int64_t version = reader.number();
  return {version, reader.text()};
}

}  // namespace

// Shorter ones no etcd grants; longer ones leave a job without a coordinator for too long.
std::chrono::milliseconds lease_length(std::chrono::milliseconds heartbeat) {
  return std::clamp<std::chrono::milliseconds>(heartbeat, std::chrono::seconds(2),
                                               std::chrono::seconds(10));
}

struct Leadership::Impl {
  StoredJob job;
  StoreLease own = {}, keeping = {};  // of the right, and of what is written
  Leader leader = {};
  std::int64_t records = 0;                      // so many were written
  std::map<std::string, std::int64_t> versions;  // the store's, of what this one wrote last
  std::optional<JobRecord> former = {};
  std::vector<std::pair<std::string, RegistryEntry>> registry = {};
  std::atomic<Clock::time_point> valid_until = {};
  std::atomic<bool> is_lost = false;  // for good, whatever the keeper of the lease hears later
  Clock::time_point reminded = Clock::now();
  bool is_abandoned = false;
  std::jthread keeper = {};

  explicit Impl(const StoredJob& given) : job(given) {}

  bool is_valid() const { return !is_lost && Clock::now() < valid_until.load(); }

  bool win(const comm::Endpoint& endpoint, std::chrono::milliseconds length,
           comm::Deadline deadline) {
    const auto asked = Clock::now();
    own = job.store().grant(length, deadline);
    leader = {endpoint, make_secret()};
    const std::string name = job.name_of(kLeader);
    const auto version =
        job.store().commit({.conditions = {{name, 0}},
                            .puts = {{name, to_string(endpoint) + " " + leader.token, own.id}}},
                           deadline);
    if (!version) return false;
    leader.version = *version;
    valid_until = asked + own.length;
    keeping = job.store().grant(kRemembered, deadline);
    keep_alive();
    take_over(deadline);
    return true;
  }

  void take_over(comm::Deadline deadline) {
    if (const auto found = job.store().get(job.name_of(kRecord), deadline)) {
      former = detail::from_bytes<JobRecord>(found->value);
      records = former->number;
      versions[found->name] = found->version;
    }
    const std::string prefix = job.name_of(kRegistry);
    for (const StoreEntry& one : job.store().list(prefix, deadline)) {
      versions[one.name] = one.version;
      registry.emplace_back(one.name.substr(prefix.size()), entry_from(one.value));
      write(registry.back().first, registry.back().second);
    }
  }

  void keep_alive() {
    keeper = std::jthread([this](const std::stop_token& stop) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any never;
      while (is_valid() && !stop.stop_requested()) {
        never.wait_for(lock, stop, own.length / kKeptAlive, [] { return false; });
        if (!stop.stop_requested()) renew();
      }
    });
    pthread_setname_np(keeper.native_handle(), "leadership");
  }

  // What goes wrong is tried again while there is time.
  void renew() {
    const auto asked = Clock::now();
    try {
      if (!job.store().keep_alive(own, valid_until.load()))
        is_lost = true;
      else if (is_valid())
        valid_until = asked + own.length;
      if (asked > reminded + kRemind && keeping.id != 0) {
        job.store().keep_alive(keeping, valid_until.load());
        reminded = asked;
      }
    } catch (const Error&) {
    }
  }

  // A try that nobody answered may reach the store after a later write of the same name: it finds
  // another version there than the one that it was to replace.
  void commit(const std::string& what, const std::string& value) {
    const std::string name = job.name_of(what);
    std::int64_t& version = versions[name];
    const StoreChange change{
        .conditions = {{job.name_of(kLeader), leader.version}, {name, version}},
        .puts = {{name, value, keeping.id}}};
    try {
      if (const auto done = is_valid() ? job.store().commit(change, valid_until.load())
                                       : std::optional<std::int64_t>()) {
        version = *done;
        return;
      }
    } catch (const Error& error) {
      is_lost = true;
      throw Deposed(fmt::format("the coordinator at {} could not reach the store: {}",
                                to_string(leader.endpoint), error.what()));
    }
    is_lost = true;
    throw Deposed(
        fmt::format("another one coordinates the job now, not {}", to_string(leader.endpoint)));
  }

  void write(const std::string& name, const RegistryEntry& entry) {
    commit(kRegistry + name, to_text(entry));
  }
};

Leadership::Leadership(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::unique_ptr<Leadership> Leadership::campaign(const StoredJob& job,
                                                 const comm::Endpoint& endpoint,
                                                 std::chrono::milliseconds length,
                                                 comm::Deadline deadline) {
  std::unique_ptr<Leadership> made(new Leadership(std::make_unique<Impl>(job)));
  return made->impl_->win(endpoint, length, deadline) ? std::move(made) : nullptr;
}

Leadership::~Leadership() {
  impl_->keeper = {};
  if (impl_->is_abandoned) return;
  try {
    impl_->job.store().revoke(impl_->own, Clock::now() + kFarewell);
  } catch (const Error&) {
    // It ends by itself.
  }
}

bool Leadership::is_valid() const { return impl_->is_valid(); }
const std::optional<JobRecord>& Leadership::former() const { return impl_->former; }
const std::vector<std::pair<std::string, RegistryEntry>>& Leadership::registry() const {
  return impl_->registry;
}

void Leadership::write(JobRecord record) {
  record.number = ++impl_->records;
  if (record.events.size() > kMostEvents)
    record.events.erase(record.events.begin(),
                        record.events.end() - static_cast<std::ptrdiff_t>(kMostEvents));
  impl_->commit(kRecord, detail::to_bytes(record));
}

void Leadership::write(const std::string& name, const RegistryEntry& entry) {
  impl_->write(name, entry);
}

void Leadership::abandon() {
  impl_->is_abandoned = true;
  impl_->keeper = {};
}

}  // namespace lockstep::cluster
