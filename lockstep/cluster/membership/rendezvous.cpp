// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/rendezvous.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <optional>
#include <utility>

#include "lockstep/base/host_name.h"
#include "lockstep/cluster/membership/detail/coordinator_link.h"
#include "lockstep/cluster/membership/detail/registry_table.h"

namespace lockstep::cluster {
namespace {

using comm::Clock;
using detail::Conversation;
using detail::kWholeJob;

// The coordinator knows who is missing, so it has the first word.
constexpr auto kCoordinatorsWord = std::chrono::seconds(1);
constexpr auto kComplaintTime = std::chrono::seconds(1);  // to be heard by the coordinator

// Equal for processes that can share memory: the same boot of the same machine, the same /dev/shm,
// the same numbers of processes, the same names of sockets.
std::string machine_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  struct stat memory {
  }, processes{}, network{};
  ::stat("/dev/shm", &memory);
  ::stat("/proc/self/ns/pid", &processes);
  ::stat("/proc/thread-self/ns/net", &network);
  return fmt::format("{} {} {} {}", boot, memory.st_dev, processes.st_ino, network.st_ino);
}

detail::Join join_of(const RendezvousOptions& options) {
  return {
      options.version,  options.configuration, options.role,       options.rank,
      options.workers,  options.servers,       machine_identity(), options.tolerates_lost_servers,
      options.survives, options.is_late};
}

void check_options(const RendezvousOptions& options) {
  if (options.secret.empty())
    throw InvalidArgument(
        "rendezvous: the job's secret is missing; it comes from whoever started {}",
        to_string(options.coordinator));
  const int size = options.role == Role::worker ? options.workers : options.servers;
  if (size < 1 || (options.rank >= size && !options.is_late))
    throw InvalidArgument("rendezvous: rank {} of {} members", options.rank, size);
}

std::chrono::milliseconds time_left(comm::Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

}  // namespace

struct Rendezvous::Impl {
  RendezvousOptions options;
  comm::Deadline deadline;
  detail::CoordinatorLink link;
  std::string address;
  detail::Welcome welcome = {};
  std::int64_t own_id = -1;  // once it has joined
  int rank = -1;
  std::vector<std::string> hosts = {};
  std::atomic<std::int64_t> generation = 0;
  std::atomic<bool> is_run_done = false;
  std::atomic<bool> broken = false;
  std::mutex reports_mutex;  // of the two that follow
  std::vector<detail::ActivityOf> reports = {};
  comm::Deadline reports_at = {};

  explicit Impl(const RendezvousOptions& given)
      : options(given),
        deadline(Clock::now() + given.timeout),
        link(given),
        address(link.now()->address()) {
    try {
      welcome = link.now()->ask<detail::Welcome>(join_of(options), time_left(deadline),
                                                 "the other members");
    } catch (const detail::CoordinatorGone& gone) {
      raise_lost(gone);
    }
    take(welcome);
    own_id = welcome.id;
    link.keep([this] { return detail::Rejoin{join_of(options), own_id, generation}; });
  }

  [[noreturn]] static void raise_lost(const detail::CoordinatorGone& gone) {
    throw comm::PeerLost(gone.what(), -1, gone.host(), gone.operation());
  }

  void take(const detail::Welcome& news) {
    welcome = news;
    rank = welcome.membership.rank_of(welcome.id);
    hosts = welcome.membership.hosts_of(options.role);
    generation = welcome.membership.generation;
  }

  // Who is missed is known by its rank in the generation that is over.
  detail::Report report_of(const Standing& standing) const {
    const auto& members = welcome.membership.members;
    const auto missed = static_cast<std::size_t>(standing.missed);
    return {welcome.membership.generation,
            standing.has_state,
            standing.is_finished,
            standing.step,
            standing.missed >= 0 && missed < members.size() ? members[missed].id : -1,
            standing.why};
  }

  bool report(const Standing& standing) {
    check_whole();
    try {
      const detail::Message answer = link.ask([&](Conversation& with) {
        return with.ask_any(report_of(standing), kWholeJob, "the next generation");
      });
      if (const auto* news = std::get_if<detail::Welcome>(&answer)) return take(*news), true;
      if (const auto* end = std::get_if<detail::Dismissed>(&answer))
        return is_run_done = end->is_finished, false;
      link.now()->raise_out_of_turn();
    } catch (const detail::JobEnded& end) {
      if (end.is_run_done()) return is_run_done = true, false;
      broken = true;
      throw;
    } catch (...) {
      broken = true;
      throw;
    }
  }

  // A generation that is over breaks nothing, and nor does a coordinator that is replaced.
  std::vector<std::string> gather(const std::string& bytes, std::chrono::milliseconds timeout) {
    check_whole();
    detail::Message answer;
    try {
      answer = link.now()->ask_any(detail::Gather{timeout, bytes, generation},
                                   timeout + kCoordinatorsWord, "the bytes of all members");
    } catch (const detail::CoordinatorGone& gone) {
      broken = !link.can_change();
      raise_lost(gone);
    } catch (...) {
      broken = true;
      throw;
    }
    if (const auto* denied = std::get_if<detail::Denied>(&answer))
      detail::raise(*denied, options.role);
    if (auto* gathered = std::get_if<detail::Gathered>(&answer)) return std::move(gathered->all);
    link.now()->raise_out_of_turn();
  }

  // What `act` asks. An answer that is late breaks nothing: what it was asked for may be asked
  // again. Any other error does.
  template <class F>
  auto ask_by(const F& act) {
    check_whole();
    try {
      return link.ask(act);
    } catch (const comm::Timeout&) {
      throw;
    } catch (...) {
      broken = true;
      throw;
    }
  }

  template <class T>
  T ask(const detail::Message& message, std::chrono::milliseconds timeout,
        const std::string& what) {
    return ask_by([&](Conversation& with) {
      return with.ask<T>(message, timeout + kCoordinatorsWord, what);
    });
  }

  // A coordinator that keeps its decisions in a store answers when that has.
  void have_noted(const detail::Message& message) {
    ask<detail::Noted>(message, options.timeout, "the coordinator's answer");
  }

  // Whatever comes of it, report() finds out what that means.
  void wait_for_nobody() const {
    try {
      link.now()->ask<detail::Noted>(detail::WaitForNobody{}, options.timeout + kCoordinatorsWord,
                                     "the coordinator's answer");
    } catch (const detail::CoordinatorGone& gone) {
      raise_lost(gone);
    }
  }

  // A coordinator that is gone has heard it where the record says that the run is done.
  void tell() {
    try {
      have_noted(detail::Told{});
    } catch (const detail::JobEnded& end) {
      if (!end.is_run_done()) throw;
      broken = false;
    }
  }

  // Of the registry: what it denies breaks nothing.
  detail::Entry ask_registry(const detail::Message& message, std::chrono::milliseconds timeout,
                             const std::string& name) {
    const auto wait = std::clamp<std::chrono::milliseconds>(timeout, {}, kWholeJob);
    detail::Message answer = ask_by([&](Conversation& with) {
      return with.ask_any(message, wait + kCoordinatorsWord,
                          fmt::format("the registry's '{}'", name));
    });
    if (const auto* denied = std::get_if<detail::Denied>(&answer))
      detail::raise(*denied, options.role);
    if (auto* entry = std::get_if<detail::Entry>(&answer)) return std::move(*entry);
    throw Corrupt("registry: {}: a message out of turn", to_string(options.coordinator));
  }

  // Who has lost the coordinator comes out of its step, and reports to the next one.
  std::optional<ChangeWanted> poll_change() {
    try {
      const auto change = link.now()->poll_change(generation);
      if (!change) return {};
      return ChangeWanted{change->is_urgent, change->why};
    } catch (const detail::CoordinatorGone& gone) {
      if (!link.can_change()) raise_lost(gone);
      return ChangeWanted{true, gone.what()};
    }
  }

  bool have_workers_left() {
    return ask_by([](Conversation& with) { return with.have_workers_left(); });
  }

  void check_whole() const {
    if (broken)
      throw comm::PeerLost("rendezvous: broken by an earlier error", -1, options.coordinator.host,
                           "rendezvous");
  }
};

Rendezvous::Rendezvous(const RendezvousOptions& options) {
  check_options(options);
  impl_ = std::make_unique<Impl>(options);
}

Rendezvous::~Rendezvous() {
  // Without a goodbye the others hear that this member was lost.
  if (!impl_->broken) impl_->link.leave();
}

const Membership& Rendezvous::membership() const { return impl_->welcome.membership; }
std::int64_t Rendezvous::id() const { return impl_->welcome.id; }
int Rendezvous::rank() const { return impl_->rank; }
int Rendezvous::size() const { return static_cast<int>(impl_->hosts.size()); }
const std::vector<std::string>& Rendezvous::hosts() const { return impl_->hosts; }
const std::string& Rendezvous::address() const { return impl_->address; }

std::vector<std::string> Rendezvous::all_gather(const std::string& bytes,
                                                std::chrono::milliseconds timeout) {
  return impl_->gather(bytes, timeout);
}

std::optional<ChangeWanted> Rendezvous::poll_change() { return impl_->poll_change(); }

bool Rendezvous::report(const Standing& standing) { return impl_->report(standing); }
bool Rendezvous::is_run_done() const { return impl_->is_run_done; }
void Rendezvous::depart() { impl_->have_noted(detail::Depart{}); }
void Rendezvous::wait_for_nobody() { impl_->wait_for_nobody(); }
void Rendezvous::tell() { impl_->tell(); }
void Rendezvous::expel(std::int64_t id, const std::string& why) {
  impl_->have_noted(detail::Expel{id, impl_->generation, why});
}
const std::vector<MembershipEvent>& Rendezvous::events() const { return impl_->welcome.events; }

MembershipStatus Rendezvous::query(std::chrono::milliseconds timeout) {
  auto reply =
      impl_->ask<detail::MembershipReply>(detail::MembershipQuery{}, timeout, "the membership");
  return {std::move(reply.membership), std::move(reply.absent)};
}

bool Rendezvous::have_workers_left() { return impl_->have_workers_left(); }

std::int64_t Rendezvous::put(const std::string& name, const std::string& bytes,
                             std::chrono::milliseconds timeout) {
  detail::RegistryTable::check_entry(name, bytes);
  return impl_->ask_registry(detail::Put{name, bytes}, timeout, name).version;
}

RegistryEntry Rendezvous::get(const std::string& name, std::chrono::milliseconds timeout,
                              const RegistryWait& wait) {
  detail::RegistryTable::check_entry(name, "");
  detail::Entry entry =
      impl_->ask_registry(detail::Get{name, timeout, wait.newer_than, wait.from}, timeout, name);
  return {entry.version, std::move(entry.bytes)};
}

ComparedEntry Rendezvous::compare_and_set(const std::string& name, std::int64_t expected_version,
                                          const std::string& bytes,
                                          std::chrono::milliseconds timeout) {
  detail::RegistryTable::check_entry(name, bytes);
  detail::Entry entry =
      impl_->ask_registry(detail::CompareAndSet{name, expected_version, bytes}, timeout, name);
  return {entry.won, entry.version, std::move(entry.bytes)};
}

std::vector<MemberReport> Rendezvous::report(const std::string& text) noexcept try {
  const std::lock_guard lock(impl_->reports_mutex);
  if (!impl_->broken)
    if (const auto answer = impl_->link.now()->tell_activity(text))
      if (const auto* reports = std::get_if<detail::Activities>(&*answer)) {
        impl_->reports = reports->all;
        impl_->reports_at = Clock::now();
      }
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - impl_->reports_at);
  std::vector<MemberReport> all;
  for (const detail::ActivityOf& one : impl_->reports)
    all.push_back({one.id, one.text, one.age + since, one.has_left});
  return all;
} catch (const std::exception&) {
  return {};  // the job is over, and others say so
}

void Rendezvous::complain(int rank, const std::string& text) noexcept {
  try {
    std::int64_t id = -1;
    int place = 0;
    for (const Member& member : impl_->welcome.membership.members)
      if (member.role == impl_->options.role && place++ == rank) id = member.id;
    impl_->link.now()->tell(detail::Missed{id, text}, kComplaintTime);
  } catch (const std::exception&) {
    // Nobody hears it any more.
  }
}

comm::Bootstrap Rendezvous::bootstrap() {
  const auto timeout = impl_->options.timeout;
  return {
      rank(),    hosts(),
      address(), impl_->options.secret,
      timeout,   [this, timeout](const std::string& bytes) { return all_gather(bytes, timeout); }};
}

namespace {

// Of one that is no member.
template <class T>
T ask_once(const comm::Endpoint& coordinator, const std::string& secret,
           const detail::Message& message, std::chrono::milliseconds timeout) {
  RendezvousOptions options;
  options.coordinator = coordinator;
  options.secret = secret;
  options.timeout = timeout;
  check_options(options);
  const auto deadline = Clock::now() + timeout;
  Conversation conversation(options);
  const detail::Message answer = [&] {
    try {
      return conversation.ask_any(message, time_left(deadline), "the coordinator's answer");
    } catch (const detail::CoordinatorGone& gone) {
      throw comm::PeerLost(gone.what(), -1, gone.host(), gone.operation());
    }
  }();
  if (const auto* denied = std::get_if<detail::Denied>(&answer))
    detail::raise(*denied, Role::worker);
  if (const auto* wanted = std::get_if<T>(&answer)) return *wanted;
  throw Corrupt("rendezvous: {}: a message out of turn", to_string(coordinator));
}

}  // namespace

MembershipStatus query_membership(const comm::Endpoint& coordinator, const std::string& secret,
                                  std::chrono::milliseconds timeout) {
  auto reply =
      ask_once<detail::MembershipReply>(coordinator, secret, detail::MembershipQuery{}, timeout);
  return {std::move(reply.membership), std::move(reply.absent)};
}

void resize_job(const comm::Endpoint& coordinator, const std::string& secret, int workers,
                std::chrono::milliseconds timeout) {
  ask_once<detail::Noted>(coordinator, secret, detail::Resize{workers}, timeout);
}

void dismiss_worker(const comm::Endpoint& coordinator, const std::string& secret, std::int64_t id,
                    std::chrono::milliseconds timeout) {
  ask_once<detail::Noted>(coordinator, secret, detail::Depart{id}, timeout);
}

}  // namespace lockstep::cluster
