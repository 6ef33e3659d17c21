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
#include "lockstep/cluster/membership/detail/messages.h"
#include "lockstep/cluster/membership/detail/registry_table.h"
#include "lockstep/comm/interfaces.h"
#include "lockstep/comm/messages/message_client.h"

namespace lockstep::cluster {
namespace {

using comm::Clock;

// The coordinator knows who is missing, so it has the first word.
constexpr auto kCoordinatorsWord = std::chrono::seconds(1);
constexpr auto kComplaintTime = std::chrono::seconds(1);       // to be heard by the coordinator
constexpr auto kWholeJob = std::chrono::hours(10 * 365 * 24);  // as long as any

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

detail::Hello hello_of(const RendezvousOptions& options) {
  return {detail::kProtocol, options.host.empty() ? own_host_name() : options.host};
}

detail::Join join_of(const RendezvousOptions& options) {
  return {
      options.version,  options.configuration, options.role,       options.rank,
      options.workers,  options.servers,       machine_identity(), options.tolerates_lost_servers,
      options.survives, options.is_late};
}

// A rank is one of those that this member's role counts.
[[noreturn]] void raise(const detail::Failure& failure, Role own) {
  const int rank = failure.role == own ? failure.rank : -1;
  if (failure.type == detail::Failure::Type::lost)
    throw comm::PeerLost(failure.text, rank, failure.host, "rendezvous");
  if (failure.type == detail::Failure::Type::timeout)
    throw comm::Timeout(failure.text, rank, failure.host, "rendezvous");
  throw comm::Refused(failure.text);
}

[[noreturn]] void raise(const detail::Denied& denied, Role own) {
  const int rank = denied.role == own ? denied.rank : -1;
  if (denied.type == detail::Denied::Type::lost)
    throw comm::PeerLost(denied.text, rank, denied.host, "registry");
  if (denied.type == detail::Denied::Type::timeout)
    throw comm::Timeout(denied.text, rank, denied.host, "registry");
  throw InvalidArgument("{}", denied.text);
}

std::vector<comm::Interface> usable_interfaces(const RendezvousOptions& options) {
  if (options.interface.empty()) return comm::interfaces_towards(options.coordinator);
  const auto named = comm::find_interfaces(options.interface);
  const auto usable = comm::interfaces_of_kind(named, options.coordinator);
  if (usable.empty())
    throw NotFound("rendezvous: {}: interface '{}' has no address of the coordinator's kind: {}",
                   to_string(options.coordinator), options.interface, comm::to_string(named));
  return usable;
}

// As the coordinator's: it says how often it will hear us.
comm::MessageClientOptions client_options(const RendezvousOptions& options) {
  comm::MessageClientOptions result;
  result.server = options.coordinator;
  result.secret = options.secret;
  result.encrypted = true;
  result.what = "rendezvous";
  result.name = options.host;
  result.heartbeat = std::chrono::minutes(1);
  result.drops_silent = false;
  result.reconnects = false;
  result.longest_message = detail::kLongestMessage;
  result.shared_memory = 0;
  return result;
}

// With an interface given, from its addresses, one after the other; else from where routes lead.
std::unique_ptr<comm::MessageClient> reach(const RendezvousOptions& options) {
  const std::vector<comm::Interface> tried = usable_interfaces(options);
  std::vector<std::string> sources(1);
  if (!options.interface.empty()) sources.resize(tried.size());
  comm::MessageClientOptions own = client_options(options);
  own.connect_timeout = options.timeout / static_cast<long>(sources.size());
  std::string last;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (!options.interface.empty()) own.source = tried[i].address;
    try {
      return std::make_unique<comm::MessageClient>(own);
    } catch (const comm::Timeout& error) {
      last = error.what();
    }
  }
  throw comm::Timeout(fmt::format("{}; interfaces tried: {}; there are {}", last,
                                  comm::to_string(tried), comm::to_string(comm::list_interfaces())),
                      -1, options.coordinator.host, "rendezvous");
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

// What is asked of the coordinator, and answered. From any thread.
class Conversation {
 public:
  explicit Conversation(const RendezvousOptions& options)
      : coordinator_(options.coordinator),
        role_(options.role),
        client_(reach(options)),
        failure_(request(hello_of(options), kWholeJob)) {}
  ~Conversation() {
    if (!leaves_) client_->abort("the rendezvous is broken");
  }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  std::string address() const { return client_->local().host; }

  // Without it the coordinator, and with it the others, hear that this member was lost.
  void leave() { leaves_ = true; }

  // Waits until it is heard, since this side may end at once.
  void tell(const detail::Message& message, std::chrono::milliseconds timeout) {
    request(message, timeout).wait();
  }

  // Throws what the coordinator has to say instead, now or since it was asked last.
  template <class T>
  T ask(const detail::Message& message, std::chrono::milliseconds timeout,
        const std::string& what) {
    const detail::Message answer = ask_any(message, timeout, what);
    if (const auto* wanted = std::get_if<T>(&answer)) return *wanted;
    throw Corrupt("rendezvous: {}: a message out of turn", to_string(coordinator_));
  }

  detail::Message ask_any(const detail::Message& message, std::chrono::milliseconds timeout,
                          const std::string& what) {
    raise_failure();
    try {
      return read(await(request(message, timeout), timeout, what));
    } catch (const comm::PeerLost&) {
      raise_failure();  // it said why before it went
      throw;
    }
  }

  // The answer to the report before this one, if it has come.
  std::optional<detail::Message> tell_activity(const std::string& text) {
    const std::lock_guard lock(mutex_);
    std::optional<detail::Message> answer;
    if (activity_ && !activity_->is_done()) return answer;
    if (activity_) answer = read(std::exchange(activity_, {})->wait().payload);
    activity_ = request(detail::Activity{text}, kWholeJob);
    return answer;
  }

  // What is asked in each generation, and again when it was answered.
  std::optional<detail::Change> poll_change(std::int64_t generation) {
    raise_failure();
    const std::lock_guard lock(mutex_);
    if (!change_ || asked_in_ != generation) {
      change_ = request(detail::AwaitChange{generation}, kWholeJob);
      asked_in_ = generation;
    }
    if (!change_->is_done()) return {};
    const detail::Message answer = read(std::exchange(change_, {})->wait().payload);
    if (const auto* change = std::get_if<detail::Change>(&answer)) return *change;
    throw Corrupt("rendezvous: {}: a message out of turn", to_string(coordinator_));
  }

  // Whether the answer to what is asked once has come.
  bool have_workers_left() {
    raise_failure();
    const std::lock_guard lock(mutex_);
    if (have_workers_left_) return true;
    if (!leave_) leave_ = request(detail::AwaitLeave{}, kWholeJob);
    if (!leave_->is_done()) return false;
    read(std::exchange(leave_, {})->wait().payload);
    return have_workers_left_ = true;
  }

 private:
  // To each that asks.
  void raise_failure() {
    const std::lock_guard lock(mutex_);
    if (!said_ && failure_ && failure_->is_done())
      said_ = std::exchange(failure_, {})->wait().payload;
    if (!said_) return;
    read(*said_);
    throw Corrupt("rendezvous: {}: a message out of turn", to_string(coordinator_));
  }

  comm::PendingReply request(const detail::Message& message, std::chrono::milliseconds timeout) {
    return client_->request(comm::Payload(detail::encode(message)),
                            {.what = "rendezvous", .timeout = timeout});
  }

  comm::Payload await(comm::PendingReply reply, std::chrono::milliseconds timeout,
                      const std::string& what) const {
    try {
      return reply.wait().payload;
    } catch (const comm::Timeout&) {
      throw comm::Timeout(
          fmt::format("rendezvous: {} at {} did not come within {:.1f} s", what,
                      to_string(coordinator_), std::chrono::duration<double>(timeout).count()),
          -1, coordinator_.host, "rendezvous");
    }
  }

  detail::Message read(const comm::Payload& payload) const {
    detail::Message message = detail::decode(payload.parts() == 0 ? "" : payload.text());
    if (const auto* failure = std::get_if<detail::Failure>(&message)) raise(*failure, role_);
    return message;
  }

  comm::Endpoint coordinator_;
  Role role_;
  std::unique_ptr<comm::MessageClient> client_;
  std::mutex mutex_;                           // of what follows
  std::optional<comm::PendingReply> failure_;  // the answer to our greeting
  std::optional<comm::Payload> said_ = {};     // once it has come
  std::optional<comm::PendingReply> leave_ = {};
  std::optional<comm::PendingReply> activity_ = {};
  std::optional<comm::PendingReply> change_ = {};
  std::int64_t asked_in_ = -1;  // the generation that it is of
  bool have_workers_left_ = false;
  bool leaves_ = false;
};

}  // namespace

struct Rendezvous::Impl {
  RendezvousOptions options;
  comm::Deadline deadline;
  Conversation conversation;
  std::string address;
  detail::Welcome welcome = {};
  int rank = -1;
  std::vector<std::string> hosts = {};
  std::atomic<std::int64_t> generation = 0;
  bool is_run_done = false;
  std::atomic<bool> broken = false;
  std::mutex reports_mutex;  // of the two that follow
  std::vector<detail::ActivityOf> reports = {};
  comm::Deadline reports_at = {};

  explicit Impl(const RendezvousOptions& given)
      : options(given),
        deadline(Clock::now() + given.timeout),
        conversation(given),
        address(conversation.address()) {
    welcome = conversation.ask<detail::Welcome>(join_of(options), time_left(deadline),
                                                "the other members");
    take(welcome);
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
      const detail::Message answer =
          conversation.ask_any(report_of(standing), kWholeJob, "the next generation");
      if (const auto* news = std::get_if<detail::Welcome>(&answer)) return take(*news), true;
      if (const auto* end = std::get_if<detail::Dismissed>(&answer))
        return is_run_done = end->is_finished, false;
      throw Corrupt("rendezvous: {}: a message out of turn", to_string(options.coordinator));
    } catch (...) {
      broken = true;
      throw;
    }
  }

  // A generation that is over breaks nothing.
  std::vector<std::string> gather(const std::string& bytes, std::chrono::milliseconds timeout) {
    check_whole();
    detail::Message answer;
    try {
      answer = conversation.ask_any(detail::Gather{timeout, bytes, generation},
                                    timeout + kCoordinatorsWord, "the bytes of all members");
    } catch (...) {
      broken = true;
      throw;
    }
    if (const auto* denied = std::get_if<detail::Denied>(&answer)) raise(*denied, options.role);
    if (auto* gathered = std::get_if<detail::Gathered>(&answer)) return std::move(gathered->all);
    throw Corrupt("rendezvous: {}: a message out of turn", to_string(options.coordinator));
  }

  // The first error breaks it, since nobody knows what the coordinator has heard.
  template <class T>
  T ask(const detail::Message& message, std::chrono::milliseconds timeout,
        const std::string& what) {
    check_whole();
    try {
      return conversation.ask<T>(message, timeout + kCoordinatorsWord, what);
    } catch (...) {
      broken = true;
      throw;
    }
  }

  // Of the registry: what it denies breaks nothing.
  detail::Entry ask_registry(const detail::Message& message, std::chrono::milliseconds timeout,
                             const std::string& name) {
    check_whole();
    const auto wait = std::clamp<std::chrono::milliseconds>(timeout, {}, kWholeJob);
    detail::Message answer;
    try {
      answer = conversation.ask_any(message, wait + kCoordinatorsWord,
                                    fmt::format("the registry's '{}'", name));
    } catch (...) {
      broken = true;
      throw;
    }
    if (const auto* denied = std::get_if<detail::Denied>(&answer)) raise(*denied, options.role);
    if (auto* entry = std::get_if<detail::Entry>(&answer)) return std::move(*entry);
    throw Corrupt("registry: {}: a message out of turn", to_string(options.coordinator));
  }

  bool have_workers_left() {
    check_whole();
    try {
      return conversation.have_workers_left();
    } catch (...) {
      broken = true;
      throw;
    }
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
  if (!impl_->broken) impl_->conversation.leave();
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

std::optional<ChangeWanted> Rendezvous::poll_change() {
  const auto change = impl_->conversation.poll_change(impl_->generation);
  if (!change) return {};
  return ChangeWanted{change->is_urgent, change->why};
}

bool Rendezvous::report(const Standing& standing) { return impl_->report(standing); }
bool Rendezvous::is_run_done() const { return impl_->is_run_done; }
void Rendezvous::depart() {
  impl_->ask<detail::Noted>(detail::Depart{}, kComplaintTime, "the coordinator's answer");
}
void Rendezvous::tell() {
  impl_->ask<detail::Noted>(detail::Told{}, kComplaintTime, "the coordinator's answer");
}
void Rendezvous::expel(std::int64_t id, const std::string& why) {
  impl_->ask<detail::Noted>(detail::Expel{id, impl_->generation, why}, kComplaintTime,
                            "the coordinator's answer");
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
    if (const auto answer = impl_->conversation.tell_activity(text))
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
    impl_->conversation.tell(detail::Missed{id, text}, kComplaintTime);
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
  const detail::Message answer =
      conversation.ask_any(message, time_left(deadline), "the coordinator's answer");
  if (const auto* denied = std::get_if<detail::Denied>(&answer)) raise(*denied, Role::worker);
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
