// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/rendezvous.h"

#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "lockstep/cluster/detail/host_name.h"
#include "lockstep/cluster/membership/detail/session.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster {
namespace {

using comm::Clock;
using detail::Session;

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
  return {detail::kProtocol, options.host.empty() ? detail::own_host_name() : options.host};
}

detail::Join join_of(const RendezvousOptions& options) {
  return {options.version, options.configuration, options.role,      options.rank,
          options.workers, options.servers,       machine_identity()};
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

std::vector<comm::Interface> usable_interfaces(const RendezvousOptions& options) {
  if (options.interface.empty()) return comm::interfaces_towards(options.coordinator);
  const auto named = comm::find_interfaces(options.interface);
  const auto usable = comm::interfaces_of_kind(named, options.coordinator);
  if (usable.empty())
    throw NotFound("rendezvous: {}: interface '{}' has no address of the coordinator's kind: {}",
                   to_string(options.coordinator), options.interface, comm::to_string(named));
  return usable;
}

// With an interface given, from its addresses, one after the other; else from where routes lead.
comm::AuthenticatedConnection reach(const RendezvousOptions& options, comm::Deadline deadline) {
  const std::vector<comm::Interface> tried = usable_interfaces(options);
  std::vector<std::string> sources(1);
  if (!options.interface.empty()) sources.resize(tried.size());
  const auto share = (deadline - Clock::now()) / static_cast<long>(sources.size());
  std::string last;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (!options.interface.empty()) sources[i] = tried[i].address;
    try {
      return comm::connect_authenticated(options.coordinator, sources[i], options.secret, 0,
                                         Clock::now() + share, "rendezvous");
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
  if (size < 1 || options.rank >= size)
    throw InvalidArgument("rendezvous: rank {} of {} members", options.rank, size);
}

// What is said to the coordinator, and heard from it. The heartbeat's thread only sends.
class Conversation {
 public:
  explicit Conversation(const RendezvousOptions& options)
      : coordinator_(options.coordinator),
        role_(options.role),
        session_(reach(options, Clock::now() + options.timeout), Session::Side::member) {
    say(hello_of(options));
  }

  std::string address() const { return local_endpoint(session_.socket()).host; }

  void say(const detail::Message& message) {
    const std::lock_guard lock(mutex_);
    session_.queue(message);
    session_.advance();
  }

  // Where nothing leaves, one is enough.
  void beat() {
    const std::lock_guard lock(mutex_);
    if (!session_.has_output()) session_.queue(detail::Heartbeat{});
    session_.flush();
  }

  template <class T>
  T await(comm::Deadline until, const std::string& what) {
    const auto begin = Clock::now();
    while (true) {
      if (const auto message = next()) {
        if (const auto* failure = std::get_if<detail::Failure>(&*message)) raise(*failure, role_);
        if (const auto* wanted = std::get_if<T>(&*message)) return *wanted;
        throw Corrupt("rendezvous: {}: a message out of turn", to_string(coordinator_));
      }
      const std::chrono::duration<double> waited = Clock::now() - begin;
      if (Clock::now() >= until)
        throw comm::Timeout(fmt::format("rendezvous: {} at {} did not come within {:.1f} s", what,
                                        to_string(coordinator_), waited.count()),
                            -1, coordinator_.host, "rendezvous");
      pollfd watched = watched_now();
      ::poll(&watched, 1, comm::poll_milliseconds(until));
    }
  }

 private:
  std::optional<detail::Message> next() {
    const std::lock_guard lock(mutex_);
    session_.advance();
    auto message = session_.next();
    if (message || !session_.is_closed()) return message;
    throw comm::PeerLost(fmt::format("rendezvous: the coordinator at {} closed the connection",
                                     to_string(coordinator_)),
                         -1, coordinator_.host, "rendezvous");
  }

  pollfd watched_now() {
    const std::lock_guard lock(mutex_);
    return session_.watched();
  }

  comm::Endpoint coordinator_;
  Role role_;
  std::mutex mutex_;
  Session session_;  // guarded by mutex_
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
  bool broken = false;
  std::jthread heart = {};

  explicit Impl(const RendezvousOptions& given)
      : options(given),
        deadline(Clock::now() + given.timeout),
        conversation(given),
        address(conversation.address()) {
    conversation.say(join_of(options));
    welcome = conversation.await<detail::Welcome>(deadline, "the other members");
    rank = welcome.membership.rank_of(welcome.id);
    hosts = welcome.membership.hosts_of(options.role);
    heart = std::jthread([this](const std::stop_token& stop) { beat(stop); });
    ::pthread_setname_np(heart.native_handle(), "heartbeat");
  }

  void beat(const std::stop_token& stop) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any asked;
    while (!asked.wait_for(lock, stop, welcome.heartbeat, [&] { return stop.stop_requested(); }))
      conversation.beat();
  }

  // Says something and waits for the answer.
  template <class T>
  T ask(const detail::Message& message, std::chrono::milliseconds timeout, const char* what) {
    if (broken)
      throw comm::PeerLost("rendezvous: broken by an earlier error", -1, options.coordinator.host,
                           "rendezvous");
    broken = true;
    conversation.say(message);
    // The coordinator knows who is missing, so it has the first word.
    T answer = conversation.await<T>(Clock::now() + timeout + std::chrono::seconds(1), what);
    broken = false;
    return answer;
  }
};

Rendezvous::Rendezvous(const RendezvousOptions& options) {
  check_options(options);
  impl_ = std::make_unique<Impl>(options);
}

Rendezvous::~Rendezvous() {
  // Without a goodbye the others hear that this member was lost.
  if (!impl_->broken) impl_->conversation.say(detail::Goodbye{});
}

const Membership& Rendezvous::membership() const { return impl_->welcome.membership; }
std::int64_t Rendezvous::id() const { return impl_->welcome.id; }
int Rendezvous::rank() const { return impl_->rank; }
int Rendezvous::size() const { return static_cast<int>(impl_->hosts.size()); }
const std::vector<std::string>& Rendezvous::hosts() const { return impl_->hosts; }
const std::string& Rendezvous::address() const { return impl_->address; }

std::vector<std::string> Rendezvous::all_gather(const std::string& bytes,
                                                std::chrono::milliseconds timeout) {
  return impl_
      ->ask<detail::Gathered>(detail::Gather{timeout, bytes}, timeout, "the bytes of all members")
      .all;
}

MembershipStatus Rendezvous::query(std::chrono::milliseconds timeout) {
  auto reply =
      impl_->ask<detail::MembershipReply>(detail::MembershipQuery{}, timeout, "the membership");
  return {std::move(reply.membership), std::move(reply.absent)};
}

void Rendezvous::complain(int rank, const std::string& text) noexcept {
  try {
    const std::int64_t first = impl_->welcome.id - impl_->rank;
    impl_->conversation.say(detail::Missed{first + rank, text});
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

MembershipStatus query_membership(const comm::Endpoint& coordinator, const std::string& secret,
                                  std::chrono::milliseconds timeout) {
  RendezvousOptions options;
  options.coordinator = coordinator;
  options.secret = secret;
  options.timeout = timeout;
  check_options(options);
  const auto deadline = Clock::now() + timeout;
  Conversation conversation(options);
  conversation.say(detail::MembershipQuery{});
  auto reply = conversation.await<detail::MembershipReply>(deadline, "the membership");
  return {std::move(reply.membership), std::move(reply.absent)};
}

}  // namespace lockstep::cluster
