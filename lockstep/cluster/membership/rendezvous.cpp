// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/rendezvous.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "lockstep/cluster/detail/fields.h"
#include "lockstep/cluster/detail/host_name.h"
#include "lockstep/cluster/membership/detail/session.h"
#include "lockstep/comm/interfaces.h"

namespace lockstep::cluster {
namespace {

using comm::Clock;
using detail::Kind;
using detail::Message;
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

std::string join_fields(const RendezvousOptions& options) {
  detail::FieldWriter fields;
  fields.text(options.version).text(options.configuration);
  fields.number(options.rank).number(options.size);
  fields.text(options.host.empty() ? detail::own_host_name() : options.host)
      .text(machine_identity());
  return fields.bytes();
}

[[noreturn]] void raise(const std::string& bytes) {
  detail::FieldReader fields(bytes);
  const auto type = fields.number();
  const int rank = static_cast<int>(fields.number());
  const std::string host = fields.text(), text = fields.text();
  if (type == 1) throw comm::PeerLost(text, rank, host, "rendezvous");
  if (type == 2) throw comm::Timeout(text, rank, host, "rendezvous");
  throw comm::Refused(text);
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
  if (options.size < 1 || options.rank >= options.size)
    throw InvalidArgument("rendezvous: rank {} of {} members", options.rank, options.size);
}

}  // namespace

struct Rendezvous::Impl {
  RendezvousOptions options;
  comm::Deadline deadline;
  Session session;
  std::string address;
  int rank = -1;
  std::vector<std::string> hosts = {};
  bool broken = true;  // until the table is here

  explicit Impl(const RendezvousOptions& given)
      : options(given),
        deadline(Clock::now() + given.timeout),
        session(reach(given, deadline), Session::Side::member),
        address(local_endpoint(session.socket()).host) {
    session.queue(Kind::join, join_fields(options));
    const Message table = await(Kind::table, deadline, "the other members");
    detail::FieldReader fields(table.fields);
    rank = static_cast<int>(fields.number());
    hosts = fields.texts();
    broken = false;
  }

  Message await(Kind kind, comm::Deadline until, const std::string& what) {
    const auto begin = Clock::now();
    while (true) {
      session.advance();
      if (auto message = session.next()) {
        if (message->kind == Kind::error) raise(message->fields);
        if (message->kind == kind) return *message;
        throw Corrupt("rendezvous: {}: a message out of turn", to_string(options.coordinator));
      }
      if (session.is_closed())
        throw comm::PeerLost(fmt::format("rendezvous: the coordinator at {} closed the connection",
                                         to_string(options.coordinator)),
                             -1, options.coordinator.host, "rendezvous");
      const std::chrono::duration<double> waited = Clock::now() - begin;
      if (Clock::now() >= until)
        throw comm::Timeout(fmt::format("rendezvous: {} at {} did not come within {:.1f} s", what,
                                        to_string(options.coordinator), waited.count()),
                            -1, options.coordinator.host, "rendezvous");
      pollfd watched = session.watched();
      ::poll(&watched, 1, comm::poll_milliseconds(until));
    }
  }

  std::vector<std::string> all_gather(const std::string& bytes, std::chrono::milliseconds timeout) {
    if (broken)
      throw comm::PeerLost("rendezvous: broken by an earlier error", -1, options.coordinator.host,
                           "rendezvous");
    broken = true;
    session.queue(Kind::gather, detail::FieldWriter().number(timeout.count()).text(bytes).bytes());
    // The coordinator knows who is missing, so it has the first word.
    const auto until = Clock::now() + timeout + std::chrono::seconds(1);
    const Message all = await(Kind::all, until, "the bytes of all members");
    broken = false;
    return detail::FieldReader(all.fields).texts();
  }

  void say_goodbye() {
    session.queue(Kind::bye);
    session.advance();
  }
};

Rendezvous::Rendezvous(const RendezvousOptions& options) {
  check_options(options);
  impl_ = std::make_unique<Impl>(options);
}

Rendezvous::~Rendezvous() {
  // Without a goodbye the others hear that this member was lost.
  if (!impl_->broken) impl_->say_goodbye();
}

int Rendezvous::rank() const { return impl_->rank; }
int Rendezvous::size() const { return static_cast<int>(impl_->hosts.size()); }
const std::vector<std::string>& Rendezvous::hosts() const { return impl_->hosts; }
const std::string& Rendezvous::address() const { return impl_->address; }

std::vector<std::string> Rendezvous::all_gather(const std::string& bytes,
                                                std::chrono::milliseconds timeout) {
  return impl_->all_gather(bytes, timeout);
}

void Rendezvous::complain(int rank, const std::string& text) noexcept {
  try {
    impl_->session.queue(Kind::complaint, detail::FieldWriter().number(rank).text(text).bytes());
    impl_->session.advance();
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

}  // namespace lockstep::cluster
