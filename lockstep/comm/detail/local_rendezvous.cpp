// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/local_rendezvous.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lockstep/base/hmac.h"
#include "lockstep/comm/detail/unix_socket.h"

namespace lockstep::comm::detail {
namespace {

constexpr std::size_t kMostCandidates = 64;
constexpr int kBacklog = 64;
constexpr int kRoom = 512 << 10;  // bytes that wait in the socket

struct Packet {
  std::string bytes;
  Socket file;
};

// What is sent at once comes at once. Nothing where there is something else, or the end.
std::optional<Packet> take_packet(const Socket& socket, std::size_t length) {
  Packet packet{std::string(length + 1, '\0'), Socket()};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  iovec data{packet.bytes.data(), packet.bytes.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  const ssize_t got = ::recvmsg(socket.fd(), &message, MSG_CMSG_CLOEXEC);
  packet.file = Socket(got < 0 ? -1 : file_in(message));
  if (got != static_cast<ssize_t>(length) || !packet.file) return std::nullopt;
  packet.bytes.resize(length);
  return packet;
}

bool is_readable(const Socket& socket, int milliseconds) {
  pollfd watched{socket.fd(), POLLIN, 0};
  return ::poll(&watched, 1, milliseconds) > 0;
}

// A frame that finds no room in memory goes through the socket.
std::unique_ptr<LocalLink> make_link(Socket socket, std::shared_ptr<MessageMemory> own,
                                     std::shared_ptr<const PeerMemory> peer) {
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_SNDBUF, &kRoom, sizeof kRoom);
  own->set_reader(peer);
  return std::make_unique<LocalLink>(std::move(socket), std::move(own), std::move(peer));
}

}  // namespace

LocalListener::LocalListener(std::chrono::milliseconds patience)
    : patience_(patience), listener_(make_unix_socket(SOCK_STREAM)) {
  const std::string name = make_secret().substr(0, kLocalName);
  const UnixAddress address("lockstep-" + name);
  if (listener_ && ::bind(listener_.fd(), address.get(), address.length) == 0 &&
      ::listen(listener_.fd(), kBacklog) == 0)
    name_ = name;
}

void LocalListener::watch(std::vector<pollfd>& watched) const {
  if (!name_.empty()) watched.push_back({listener_.fd(), POLLIN, 0});
  for (const Candidate& one : candidates_) watched.push_back({one.socket.fd(), POLLIN, 0});
}

Deadline LocalListener::next_deadline() const {
  return candidates_.empty() ? Deadline::max() : candidates_.front().deadline;
}

void LocalListener::accept_all() {
  while (!name_.empty()) {
    Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!socket) return;
    if (!is_ours(socket)) continue;
    candidates_.push_back({std::move(socket), Clock::now() + patience_});
    if (candidates_.size() > kMostCandidates) candidates_.pop_front();
  }
}

std::vector<LocalVisitor> LocalListener::accept() {
  accept_all();
  std::vector<LocalVisitor> visitors;
  const Deadline now = Clock::now();
  for (auto one = candidates_.begin(); one != candidates_.end();) {
    if (!is_readable(one->socket, 0) && now < one->deadline) {
      ++one;
      continue;
    }
    if (auto packet = take_packet(one->socket, kLocalTicket + kLocalProof))
      visitors.push_back({std::move(one->socket), packet->bytes.substr(0, kLocalTicket),
                          packet->bytes.substr(kLocalTicket), std::move(packet->file)});
    one = candidates_.erase(one);
  }
  return visitors;
}

std::unique_ptr<LocalLink> welcome_locally(LocalVisitor visitor, const std::string& proof,
                                           std::size_t bytes) {
  auto peer = PeerMemory::map(visitor.file.fd(), bytes);
  auto own = peer ? MessageMemory::make(peer->size()) : nullptr;
  if (!own || !send_with_file(visitor.socket, proof, own->file())) return nullptr;
  return make_link(std::move(visitor.socket), std::move(own), std::move(peer));
}

std::unique_ptr<LocalLink> connect_locally(const std::string& name, const std::string& ticket,
                                           const LocalProofs& proofs, std::size_t bytes,
                                           Deadline deadline) {
  Socket socket = make_unix_socket(SOCK_STREAM);
  const UnixAddress address("lockstep-" + name);
  if (!socket || ::connect(socket.fd(), address.get(), address.length) != 0 || !is_ours(socket))
    return nullptr;
  auto own = MessageMemory::make(bytes);
  if (!own || !send_with_file(socket, ticket + proofs.client, own->file())) return nullptr;
  while (!is_readable(socket, poll_milliseconds(deadline)))
    if (Clock::now() >= deadline) return nullptr;
  const auto packet = take_packet(socket, kLocalProof);
  if (!packet || !same_secret(packet->bytes, proofs.server)) return nullptr;
  auto peer = PeerMemory::map(packet->file.fd(), bytes);
  return peer ? make_link(std::move(socket), std::move(own), std::move(peer)) : nullptr;
}

}  // namespace lockstep::comm::detail
