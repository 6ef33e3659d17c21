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

void shake_hands(const Socket& socket, Handshake& handshake, Deadline deadline) {
  std::string received;
  while (handshake.wanted() > 0) {
    pollfd waiting{socket.fd(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, poll_milliseconds(deadline));
    if (ready <= 0 && Clock::now() >= deadline)
      throw IoError("connected, but it sent {} of {} bytes", received.size(), handshake.wanted());
    if (ready <= 0) continue;
    if (read_up_to(socket, received, handshake.wanted()) == Reading::closed)
      throw IoError("it closed the connection");
    if (received.size() < handshake.wanted()) continue;
    handshake.feed(std::exchange(received, {}));
    if (!send_output(socket, handshake)) throw IoError("it closed the connection");
  }
}

AuthenticatedConnection try_connect(const Endpoint& at, const std::string& source,
                                    const std::string& secret, std::uint64_t label,
                                    Deadline deadline) {
  Socket socket = connect_to(at, source, deadline);
  Handshake handshake(Handshake::Role::connector, secret, label);
  shake_hands(socket, handshake, deadline);
  return {std::move(socket), at, label, handshake.session_key()};
}

}  // namespace

AuthenticatedListener::AuthenticatedListener(const Endpoint& at, std::string secret,
                                             std::chrono::milliseconds handshake_timeout)
    : listener_(listen_on(at)), secret_(std::move(secret)), handshake_timeout_(handshake_timeout) {}

void AuthenticatedListener::watch(std::vector<pollfd>& watched) const {
  watched.push_back({listener_.fd(), POLLIN, 0});
  for (const Candidate& one : candidates_) watched.push_back({one.socket.fd(), POLLIN, 0});
}

// Where this process may open no more files, whoever has waited longest makes room.
Socket AuthenticatedListener::accept_one() {
  Socket socket = accept_from(listener_);
  while (!socket && (errno == EMFILE || errno == ENFILE) && !candidates_.empty()) {
    drop_oldest();
    socket = accept_from(listener_);
  }
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
                                              Deadline deadline, const std::string& what) {
  std::string reason;
  const auto begin = Clock::now();
  for (auto pause = std::chrono::milliseconds(20);;
       pause = std::min(pause * 2, decltype(pause)(500))) {
    try {
      return try_connect(at, source, secret, label, deadline);
    } catch (const IoError& error) {
      reason = error.what();
    } catch (const Refused& error) {
      throw Refused(fmt::format("{}: {}: {}", what, to_string(at), error.what()));
    } catch (const Corrupt& error) {
      throw Corrupt("{}: {}: {}", what, to_string(at), error.what());
    }
    if (Clock::now() + pause >= deadline) break;
    std::this_thread::sleep_for(pause);
  }
  const std::chrono::duration<double> waited = Clock::now() - begin;
  if (reason.find(to_string(at)) == std::string::npos) reason = to_string(at) + ": " + reason;
  throw Timeout(fmt::format("{}: {} (tried for {:.1f} s)", what, reason, waited.count()), -1,
                at.host, what);
}

}  // namespace lockstep::comm
