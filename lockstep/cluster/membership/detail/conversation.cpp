// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/conversation.h"

#include <utility>

#include "lockstep/base/host_name.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster::detail {
namespace {

Hello hello_of(const RendezvousOptions& options) {
  return {kProtocol, options.host.empty() ? own_host_name() : options.host};
}

// A rank is one of those that this member's role counts.
[[noreturn]] void raise(const Failure& failure, Role own) {
  const int rank = failure.role == own ? failure.rank : -1;
  if (failure.type == Failure::Type::lost)
    throw comm::PeerLost(failure.text, rank, failure.host, "rendezvous");
  if (failure.type == Failure::Type::timeout)
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
  result.longest_message = kLongestMessage;
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

// What `act` does with the connection. Who has lost it, or gave it up, hears so.
template <class F>
auto with_connection(const comm::Endpoint& coordinator, const F& act) {
  try {
    return act();
  } catch (const comm::PeerLost& error) {
    throw CoordinatorGone(error.what(), -1, coordinator.host, "rendezvous");
  } catch (const comm::Aborted& error) {
    throw CoordinatorGone(error.what(), -1, coordinator.host, "rendezvous");
  }
}

}  // namespace

[[noreturn]] void raise(const Denied& denied, Role own) {
  const int rank = denied.role == own ? denied.rank : -1;
  if (denied.type == Denied::Type::lost)
    throw comm::PeerLost(denied.text, rank, denied.host, "registry");
  if (denied.type == Denied::Type::timeout)
    throw comm::Timeout(denied.text, rank, denied.host, "registry");
  throw InvalidArgument("{}", denied.text);
}

Conversation::Conversation(const RendezvousOptions& options)
    : coordinator_(options.coordinator),
      role_(options.role),
      client_(reach(options)),
      failure_(request(hello_of(options), kWholeJob)) {}

Conversation::~Conversation() {
  if (!leaves_) client_->abort("the rendezvous is broken");
}

void Conversation::tell(const Message& message, std::chrono::milliseconds timeout) {
  with_connection(coordinator_, [&] { return request(message, timeout).wait(); });
}

Message Conversation::ask_any(const Message& message, std::chrono::milliseconds timeout,
                              const std::string& what) {
  raise_failure();
  try {
    return read(await(request(message, timeout), timeout, what));
  } catch (const CoordinatorGone&) {
    raise_failure();  // it said why before it went
    throw;
  }
}

std::optional<Message> Conversation::tell_activity(const std::string& text) {
  const std::lock_guard lock(mutex_);
  std::optional<Message> answer;
  if (activity_ && !activity_->is_done()) return answer;
  if (activity_) answer = read(await(*std::exchange(activity_, {}), kWholeJob, ""));
  activity_ = request(Activity{text}, kWholeJob);
  return answer;
}

std::optional<Change> Conversation::poll_change(std::int64_t generation) {
  raise_failure();
  const std::lock_guard lock(mutex_);
  if (!change_ || asked_in_ != generation) {
    change_ = request(AwaitChange{generation}, kWholeJob);
    asked_in_ = generation;
  }
  if (!change_->is_done()) return {};
  const Message answer = read(await(*std::exchange(change_, {}), kWholeJob, ""));
  if (const auto* change = std::get_if<Change>(&answer)) return *change;
  raise_out_of_turn();
}

bool Conversation::have_workers_left() {
  raise_failure();
  const std::lock_guard lock(mutex_);
  if (have_workers_left_) return true;
  if (!leave_) leave_ = request(AwaitLeave{}, kWholeJob);
  if (!leave_->is_done()) return false;
  read(await(*std::exchange(leave_, {}), kWholeJob, ""));
  return have_workers_left_ = true;
}

// To each that asks. Where the connection was lost there is nothing, now and later.
void Conversation::raise_failure() {
  const std::lock_guard lock(mutex_);
  if (!said_ && failure_ && failure_->is_done())
    said_ = await(*std::exchange(failure_, {}), kWholeJob, "");
  if (!said_) return;
  read(*said_);
  raise_out_of_turn();
}

void Conversation::raise_out_of_turn() const {
  throw Corrupt("rendezvous: {}: a message out of turn", to_string(coordinator_));
}

comm::PendingReply Conversation::request(const Message& message,
                                         std::chrono::milliseconds timeout) {
  return with_connection(coordinator_, [&] {
    return client_->request(comm::Payload(encode(message)),
                            {.what = "rendezvous", .timeout = timeout});
  });
}

comm::Payload Conversation::await(comm::PendingReply reply, std::chrono::milliseconds timeout,
                                  const std::string& what) const {
  try {
    return with_connection(coordinator_, [&] { return reply.wait().payload; });
  } catch (const comm::Timeout&) {
    throw comm::Timeout(
        fmt::format("rendezvous: {} at {} did not come within {:.1f} s", what,
                    to_string(coordinator_), std::chrono::duration<double>(timeout).count()),
        -1, coordinator_.host, "rendezvous");
  }
}

Message Conversation::read(const comm::Payload& payload) const {
  Message message = decode(payload.parts() == 0 ? "" : payload.text());
  if (const auto* failure = std::get_if<Failure>(&message)) raise(*failure, role_);
  return message;
}

}  // namespace lockstep::cluster::detail
