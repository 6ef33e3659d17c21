// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/authenticated_listener.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace lockstep::comm {
namespace {

constexpr std::size_t kMostCandidates = 256;
constexpr auto kFullTime = std::chrono::milliseconds(50);
constexpr auto kCheckTime = std::chrono::milliseconds(100);  // between two checks
constexpr auto kAttemptTime = std::chrono::seconds(2);  // for a host to answer, between two checks

// In slices of time, with a check before each, until `wait` is done or the deadline is over.
bool wait_with_checks(Deadline deadline, const std::function<void()>& check,
                      const std::function<bool(Deadline until)>& wait) {
  while (true) {
    if (check) check();
    const Deadline slice =
        check ? std::min<Deadline>(deadline, Clock::now() + kCheckTime) : deadline;
    if (wait(slice)) return true;
    if (Clock::now() >= deadline) return false;
  }
}

enum class Reading { more, blocked, closed };

// Reads towards `wanted` bytes and not one more.
Reading read_up_to(const Socket& socket, std::string& received, std::size_t wanted) {
  char block[256];
  const std::size_t room = std::min(sizeof block, wanted - received.size());
  const ssize_t got = ::recv(socket.fd(), block, room, 0);
  if (got > 0) received.append(block, static_cast<std::size_t>(got));
  if (got > 0) return Reading::more;
  const bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
  return later ? Reading::blocked : Reading::closed;
}

// A handshake's messages are so short that a new connection takes them at once or is broken.
bool send_output(const Socket& socket, Handshake& handshake) {
  const std::string bytes = handshake.take_output();
  const ssize_t sent = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(bytes.size());
}

void shake_hands(const Socket& socket, Handshake& handshake, Deadline deadline,
                 const std::function<void()>& check) {
  std::string received;
  const auto is_readable = [&](Deadline until) {
    pollfd waiting{socket.fd(), POLLIN, 0};
    return ::poll(&waiting, 1, poll_milliseconds(until)) > 0;
  };
  while (handshake.wanted() > 0) {
    if (!wait_with_checks(deadline, check, is_readable))
      throw IoError("connected, but it sent {} of {} bytes", received.size(), handshake.wanted());
    if (read_up_to(socket, received, handshake.wanted()) == Reading::closed)
      throw IoError("it closed the connection");
    if (received.size() < handshake.wanted()) continue;
    handshake.feed(std::exchange(received, {}));
    if (!send_output(socket, handshake)) throw IoError("it closed the connection");
  }
}

AuthenticatedConnection try_connect(const Endpoint& at, const std::string& source,
                                    const std::string& secret, std::uint64_t label,
                                    Deadline deadline, const std::function<void()>& check) {
  const Deadline answer =
      check ? std::min<Deadline>(deadline, Clock::now() + kAttemptTime) : deadline;
  Socket socket = connect_to(at, source, answer);
  Handshake handshake(Handshake::Role::connector, secret, label);
  shake_hands(socket, handshake, deadline, check);
  return {std::move(socket), at, label, handshake.session_key()};
}

}  // namespace

AuthenticatedListener::AuthenticatedListener(const Endpoint& at, std::string secret,
                                             std::chrono::milliseconds handshake_timeout,
                                             const PortRange& ports)
    : listener_(listen_on(at, ports)),
      secret_(std::move(secret)),
      handshake_timeout_(handshake_timeout) {}

void AuthenticatedListener::watch(std::vector<pollfd>& watched) const {
  if (!is_full()) watched.push_back({listener_.fd(), POLLIN, 0});
  for (const Candidate& one : candidates_) watched.push_back({one.socket.fd(), POLLIN, 0});
}

// Where this process may open no more files, whoever has waited longest makes room. With nobody
// there, who comes waits outside for a while: else poll() would say again and again that it is
// there.
Socket AuthenticatedListener::accept_one() {
  const auto is_over = [] { return errno == EMFILE || errno == ENFILE; };
  Socket socket = accept_from(listener_);
  bool is_full = !socket && is_over();
  while (is_full && !candidates_.empty()) {
    drop_oldest();
    socket = accept_from(listener_);
    is_full = !socket && is_over();
  }
  full_until_ = is_full ? Clock::now() + kFullTime : Deadline();
  return socket;
}

void AuthenticatedListener::drop_oldest() {
  refusals_.add(candidates_.front().from, "too many connections wait at once");
  candidates_.pop_front();
}

void AuthenticatedListener::accept_all() {
  while (Socket socket = accept_one()) {
    const Endpoint from = peer_endpoint(socket);
    Handshake handshake(Handshake::Role::listener, secret_);
    if (!send_output(socket, handshake)) continue;
    if (candidates_.size() == kMostCandidates) drop_oldest();
    candidates_.push_back(
        {std::move(socket), from, std::move(handshake), {}, Clock::now() + handshake_timeout_});
  }
}

bool AuthenticatedListener::advance(Candidate& one,
                                    std::vector<AuthenticatedConnection>& accepted) {
  const std::size_t wanted = one.handshake.wanted();
  const Reading reading = read_up_to(one.socket, one.received, wanted);
  if (reading == Reading::closed) {
    refusals_.add(one.from, "it closed the connection before it proved the secret");
    return false;
  }
  if (one.received.size() < wanted) {
    if (Clock::now() < one.deadline) return true;
    refusals_.add(one.from, fmt::format("it sent {} of {} bytes of its proof in {} ms",
                                        one.received.size(), wanted, handshake_timeout_.count()));
    return false;
  }
  try {
    one.handshake.feed(one.received);
  } catch (const Error& error) {
    send_output(one.socket, one.handshake);
    refusals_.add(one.from, error.what());
    return false;
  }
  if (send_output(one.socket, one.handshake))
    accepted.push_back(
        {std::move(one.socket), one.from, one.handshake.label(), one.handshake.session_key()});
  return false;
}

std::vector<AuthenticatedConnection> AuthenticatedListener::accept() {
  accept_all();
  std::vector<AuthenticatedConnection> accepted;
  std::erase_if(candidates_, [&](Candidate& one) { return !advance(one, accepted); });
  return accepted;
}

AuthenticatedConnection connect_authenticated(const Endpoint& at, const std::string& source,
                                              const std::string& secret, std::uint64_t label,
                                              Deadline deadline, const std::string& what,
                                              const std::function<void()>& check) {
  std::string reason;
  const auto begin = Clock::now();
  for (auto pause = std::chrono::milliseconds(20);;
       pause = std::min(pause * 2, decltype(pause)(500))) {
    try {
      return try_connect(at, source, secret, label, deadline, check);
    } catch (const IoError& error) {
      reason = error.what();
    } catch (const Refused& error) {
      throw Refused(fmt::format("{}: {}: {}", what, to_string(at), error.what()));
    } catch (const Corrupt& error) {
      throw Corrupt("{}: {}: {}", what, to_string(at), error.what());
    }
    if (Clock::now() + pause >= deadline) break;
    if (check) check();
    std::this_thread::sleep_for(check ? std::min<decltype(pause)>(pause, kCheckTime) : pause);
  }
  const std::chrono::duration<double> waited = Clock::now() - begin;
  if (reason.find(to_string(at)) == std::string::npos) reason = to_string(at) + ": " + reason;
  throw Timeout(fmt::format("{}: {} (tried for {:.1f} s)", what, reason, waited.count()), -1,
                at.host, what);
}

}  // namespace lockstep::comm
