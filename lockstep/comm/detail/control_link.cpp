// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/control_link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lockstep/base/hmac.h"

namespace lockstep::comm::detail {
namespace {

constexpr char kHeartbeat = 'H', kGoodbye = 'G';
constexpr std::size_t kSignature = 32;
constexpr std::size_t kMostReceived = 4096;  // before there are heartbeats

}  // namespace

ControlLink::ControlLink(AuthenticatedConnection connection, std::chrono::milliseconds heartbeat,
                         std::chrono::milliseconds silence)
    : connection_(std::move(connection)), heartbeat_(heartbeat), silence_(silence) {
  keep_alive(connection_.socket);
}

// So short that a connection takes them at once, or is no use.
void ControlLink::send_signed(const std::string& bytes) {
  const std::string all = bytes + hmac_sha256(connection_.session_key, bytes);
  const ssize_t sent = ::send(fd(), all.data(), all.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(all.size())) closed_ = true;
}

std::optional<std::string> ControlLink::take_signed(std::size_t length) {
  read();
  if (received_.size() < length + kSignature) return std::nullopt;
  const std::string bytes = received_.substr(0, length);
  const std::string signature = received_.substr(length, kSignature);
  if (!same_secret(signature, hmac_sha256(connection_.session_key, bytes)))
    throw Corrupt("{}: a message that its connection did not sign", to_string(from()));
  received_.erase(0, length + kSignature);
  return bytes;
}

void ControlLink::start_heartbeats(std::chrono::milliseconds at_least) {
  beats_ = true;
  heartbeat_ = std::min(heartbeat_, at_least);
  take_heartbeats();
}

std::string ControlLink::proof(std::string_view text) const {
  return hmac_sha256(connection_.session_key, text);
}

std::string ControlLink::goodbye() const { return kGoodbye + proof("goodbye"); }

void ControlLink::say_goodbye() {
  const std::string bytes = goodbye();
  static_cast<void>(::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

// Nobody on the way can say goodbye for the other side.
void ControlLink::take_heartbeats() {
  received_.erase(0, std::min(received_.find_first_not_of(kHeartbeat), received_.size()));
  if (received_.empty() || left_) return;
  const std::string last = goodbye();
  left_ = same_secret(received_, last);
  closed_ = !left_ && (received_[0] != kGoodbye || received_.size() >= last.size());
}

void ControlLink::read() {
  char block[512];
  while (!closed_) {
    const ssize_t got = ::recv(fd(), block, sizeof block, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0 || received_.size() > kMostReceived) {
      closed_ = true;
      return;
    }
    quiet_ = Clock::duration{0};
    received_.append(block, static_cast<std::size_t>(got));
    if (beats_) take_heartbeats();
  }
}

ControlLink::State ControlLink::look() {
  const Deadline now = Clock::now();
  quiet_ += std::min<Clock::duration>(now - std::exchange(looked_, now), heartbeat_);
  read();
  if (beats_ && now - sent_ >= heartbeat_) {
    // Where there is no room the other side has enough of them to read.
    static_cast<void>(::send(fd(), &kHeartbeat, 1, MSG_NOSIGNAL));
    sent_ = now;
  }
  if (left_) return State::left;
  if (closed_) return State::lost;
  return quiet_ >= silence_ ? State::silent : State::open;
}

Deadline ControlLink::next_look() const {
  const Deadline look = looked_ + heartbeat_;
  return beats_ ? std::min(look, sent_ + heartbeat_) : look;
}

std::string ControlLink::reason(State state) const {
  const std::chrono::duration<double> quiet = quiet_;
  if (state == State::silent) return fmt::format("no heartbeat for {:.1f} s", quiet.count());
  return state == State::left ? "it has left" : "its connection closed";
}

}  // namespace lockstep::comm::detail
