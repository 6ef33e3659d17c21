// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/session.h"

#include <sys/socket.h>

#include <cerrno>

#include "lockstep/base/hmac.h"
#include "lockstep/cluster/detail/fields.h"

namespace lockstep::cluster::detail {
namespace {

constexpr std::size_t kLength = 8, kSum = 32;
constexpr std::int64_t kLongest = 64 << 20;
constexpr int kMostBlocks = 64;

}  // namespace

Session::Session(comm::AuthenticatedConnection connection, Side side)
    : connection_(std::move(connection)), side_(side) {
  comm::keep_alive(connection_.socket);
}

std::string Session::sum(bool own, std::uint64_t number, std::string_view body) const {
  const bool by_member = own == (side_ == Side::member);
  FieldWriter signed_part;
  signed_part.number(by_member ? 1 : 0).number(static_cast<std::int64_t>(number)).text(body);
  return hmac_sha256(connection_.session_key, signed_part.bytes());
}

void Session::queue(const Message& message) {
  const std::string body = encode(message);
  output_ += FieldWriter().text(body).bytes();
  output_ += sum(true, sent_++, body);
}

void Session::advance() {
  send_some();
  receive_some();
}

void Session::send_some() {
  while (!output_.empty() && !closed_) {
    const ssize_t sent =
        ::send(connection_.socket.fd(), output_.data(), output_.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (sent < 0) return;  // what the peer said before it closed is still to be read
    output_.erase(0, static_cast<std::size_t>(sent));
  }
}

// Whoever never stops sending is read in turns: each message's length is looked at between them.
void Session::receive_some() {
  char block[16384];
  for (int blocks = 0; !closed_ && blocks < kMostBlocks; ++blocks) {
    const ssize_t got = ::recv(connection_.socket.fd(), block, sizeof block, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) closed_ = true;
    if (got > 0) input_.append(block, static_cast<std::size_t>(got));
  }
}

std::optional<Message> Session::next() {
  if (input_.size() < kLength) return {};
  const std::int64_t length = FieldReader(input_).number();
  if (length < 1 || length > kLongest)
    throw Corrupt("{}: a message of {} bytes, expected 1 to {}", to_string(from()), length,
                  kLongest);
  const std::size_t end = kLength + static_cast<std::size_t>(length) + kSum;
  if (input_.size() < end) return {};
  const std::string body = input_.substr(kLength, static_cast<std::size_t>(length));
  if (!same_secret(sum(false, received_++, body),
                   std::string_view(input_).substr(end - kSum, kSum)))
    throw Corrupt("{}: a message was changed on its way", to_string(from()));
  input_.erase(0, end);
  return decode(body);
}

pollfd Session::watched() const {
  const short events = output_.empty() ? POLLIN : POLLIN | POLLOUT;
  return {connection_.socket.fd(), events, 0};
}

}  // namespace lockstep::cluster::detail
