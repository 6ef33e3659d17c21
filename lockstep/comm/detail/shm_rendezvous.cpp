// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/shm_rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "lockstep/comm/detail/unix_socket.h"

namespace lockstep::comm::detail {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(1);
constexpr auto kCheckTime = std::chrono::milliseconds(100);  // between two checks
constexpr auto kLinger = std::chrono::seconds(2);
constexpr std::size_t kLongest = 1000;  // of a packet

// What is said, each in a packet of its own. A peer says its rank first. An error, of either side,
// has its rank and its text after it.
constexpr char kFile = 'f', kMapped = 'm', kGo = 'g';
constexpr char kLost = 'l', kTimeout = 't', kInvalid = 'i', kError = 'x';

std::string name_of_group(const std::string& group) { return "lockstep-" + group; }

Socket make_socket() {
  Socket socket = make_unix_socket(SOCK_SEQPACKET);
  if (!socket) throw IoError("shm: socket: {}", std::strerror(errno));
  return socket;
}

// Whoever is not there any more is noticed by whoever reads.
void say(const Socket& socket, const void* bytes, std::size_t count) {
  static_cast<void>(::send(socket.fd(), bytes, count, MSG_NOSIGNAL));
}

bool is_gone(int error) { return error == EPIPE || error == ECONNRESET; }

int name_of(const ShmOptions& options, int rank) {
  return options.names.empty() ? rank : options.names[static_cast<std::size_t>(rank)];
}

[[noreturn]] void throw_missed(const ShmOptions& options, int rank) {
  const int name = name_of(options, rank);
  throw Timeout(fmt::format("connect: rank {} on {} has not come in time", name, options.host),
                name, options.host, "connect");
}

[[noreturn]] void throw_lost(const ShmOptions& options, int rank) {
  const int name = name_of(options, rank);
  throw PeerLost(fmt::format("connect: rank {} on {} was lost: it ended before all had come", name,
                             options.host),
                 name, options.host, "connect");
}

char kind_of(const Error& error) {
  if (dynamic_cast<const Timeout*>(&error) != nullptr) return kTimeout;
  if (dynamic_cast<const CommError*>(&error) != nullptr) return kLost;
  return dynamic_cast<const InvalidArgument*>(&error) != nullptr ? kInvalid : kError;
}

std::string packet_of(const Error& error) {
  const auto* comm = dynamic_cast<const CommError*>(&error);
  const int rank = comm == nullptr ? -1 : comm->rank();
  std::string packet(1, kind_of(error));
  packet.append(reinterpret_cast<const char*>(&rank), sizeof rank);
  return (packet + error.what()).substr(0, kLongest);
}

void raise_error_in(std::string_view packet, const std::string& host) {
  int rank = -1;
  if (packet.size() < 1 + sizeof rank) return;
  std::memcpy(&rank, packet.data() + 1, sizeof rank);
  const std::string text(packet.substr(1 + sizeof rank));
  if (packet[0] == kLost) throw PeerLost(text, rank, host, "connect");
  if (packet[0] == kTimeout) throw Timeout(text, rank, host, "connect");
  if (packet[0] == kInvalid) throw InvalidArgument("{}", text);
  if (packet[0] == kError) throw IoError("{}", text);
}

}  // namespace

ShmRendezvousServer::ShmRendezvousServer(const ShmOptions& options, Deadline deadline)
    : options_(options), deadline_(deadline), listener_(make_socket()), spare_(make_socket()) {
  const UnixAddress address(name_of_group(options.group));
  if (::bind(listener_.fd(), address.get(), address.length) != 0 ||
      ::listen(listener_.fd(), options.size) != 0)
    throw IoError("shm: group '{}': cannot be met: {}", options.group, std::strerror(errno));
}

void ShmRendezvousServer::share(int file) {
  while (!have_all_mapped()) {
    const bool is_late = Clock::now() > deadline_;
    if (options_.check) options_.check();
    wait(options_.check ? std::min<Deadline>(deadline_, Clock::now() + kCheckTime) : deadline_);
    if (const int error = accept_all(); error != 0)
      throw IoError("shm: rank {}: the others cannot be let in: {}", name_of(options_, 0),
                    std::strerror(error));
    for (Peer& peer : peers_) receive_from(peer, file);
    std::erase_if(peers_, [](const Peer& peer) { return !peer.socket; });
    if (is_late && !have_all_mapped()) give_up();
  }
  for (const Peer& peer : peers_)
    if (peer.rank > 0) say(peer.socket, &kGo, 1);
}

void ShmRendezvousServer::refuse_all(const Error& error) {
  const Deadline end = std::min<Deadline>(deadline_, Clock::now() + kLinger);
  const std::string message = packet_of(error);
  spare_.close();
  for (int told = 0; true; wait(end)) {
    if (accept_all() != 0) std::this_thread::sleep_for(kPoll);
    for (const Peer& peer : peers_)
      if (peer.socket) say(peer.socket, message.data(), message.size());
    told += static_cast<int>(peers_.size());
    peers_.clear();
    if (told >= options_.size - 1 || Clock::now() >= end) return;
  }
}

bool ShmRendezvousServer::have_all_mapped() const {
  return std::count_if(peers_.begin(), peers_.end(),
                       [](const Peer& peer) { return peer.has_mapped; }) == options_.size - 1;
}

void ShmRendezvousServer::wait(Deadline deadline) const {
  std::vector<pollfd> watched{{listener_.fd(), POLLIN, 0}};
  for (const Peer& peer : peers_)
    if (peer.socket) watched.push_back({peer.socket.fd(), POLLIN, 0});
  ::poll(watched.data(), watched.size(), poll_milliseconds(deadline));
}

// Those who wait. Returns why somebody cannot be accepted, or 0.
int ShmRendezvousServer::accept_all() {
  while (true) {
    Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!socket) return errno == EAGAIN ? 0 : errno;
    if (is_ours(socket)) peers_.push_back({std::move(socket)});
  }
}

void ShmRendezvousServer::receive_from(Peer& peer, int file) {
  char text[kLongest];
  const ssize_t got = ::recv(peer.socket.fd(), text, sizeof text, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  int rank = -1;
  if (got == sizeof rank && peer.rank < 0) {
    std::memcpy(&rank, text, sizeof rank);
    return send_file(peer, rank, file);
  }
  if (got == 1 && peer.rank > 0) {
    peer.has_mapped = true;
    return;
  }
  peer.socket.close();
  if (peer.rank < 0) return;
  if (got > 0) raise_error_in({text, static_cast<std::size_t>(got)}, options_.host);
  throw_lost(options_, peer.rank);
}

void ShmRendezvousServer::send_file(Peer& peer, int rank, int file) {
  if (rank < 1 || rank >= options_.size || find(rank) != nullptr) return peer.socket.close();
  peer.rank = rank;
  if (!send_with_file(peer.socket, {&kFile, 1}, file) && !is_gone(errno))
    throw IoError("shm: rank {}: the group's file cannot be handed to rank {}: {}",
                  name_of(options_, 0), name_of(options_, rank), std::strerror(errno));
}

const ShmRendezvousServer::Peer* ShmRendezvousServer::find(int rank) const {
  const auto peer =
      std::find_if(peers_.begin(), peers_.end(), [&](const Peer& one) { return one.rank == rank; });
  return peer == peers_.end() ? nullptr : &*peer;
}

// Who has not come at all is to blame before those who have.
void ShmRendezvousServer::give_up() const {
  for (int rank = 1; rank < options_.size; ++rank)
    if (find(rank) == nullptr) throw_missed(options_, rank);
  int slow = 1;
  while (slow + 1 < options_.size && find(slow)->has_mapped) ++slow;
  throw_missed(options_, slow);
}

ShmRendezvousClient::ShmRendezvousClient(const ShmOptions& options, Deadline deadline)
    : options_(options), deadline_(deadline) {
  connect();
  say(socket_, &options.rank, sizeof options.rank);
}

void ShmRendezvousClient::connect() {
  const UnixAddress address(name_of_group(options_.group));
  while (true) {
    socket_.close();
    socket_ = make_socket();
    if (::connect(socket_.fd(), address.get(), address.length) == 0) break;
    if (Clock::now() > deadline_) throw_missed(options_, 0);
    if (options_.check) options_.check();
    std::this_thread::sleep_for(kPoll);
  }
  if (!is_ours(socket_))
    throw IoError("shm: group '{}': another user's process is there", options_.group);
}

int ShmRendezvousClient::take_file() {
  const int file = receive([] { return 0; });
  if (file < 0) throw_lost(options_, 0);
  return file;
}

void ShmRendezvousClient::await_all(const std::function<int()>& missing) {
  say(socket_, &kMapped, 1);
  receive(missing);
}

void ShmRendezvousClient::leave(const Error& error) {
  const std::string message = packet_of(error);
  say(socket_, message.data(), message.size());
}

int ShmRendezvousClient::receive(const std::function<int()>& missing) {
  char text[kLongest];
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  iovec data{text, sizeof text};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  ssize_t got = -1;
  while ((got = ::recvmsg(socket_.fd(), &message, MSG_CMSG_CLOEXEC)) < 0) {
    // Rank 0 left without having read everything: its last word comes after this error.
    if (errno == ECONNRESET || errno == EINTR) continue;
    if (errno != EAGAIN) break;
    if (Clock::now() > deadline_) throw_missed(options_, missing());
    if (options_.check) options_.check();
    pollfd watched{socket_.fd(), POLLIN, 0};
    const int longest = options_.check ? static_cast<int>(kCheckTime.count()) : 1000;
    ::poll(&watched, 1, poll_milliseconds(deadline_, longest));
  }
  if (got <= 0) throw_lost(options_, 0);
  raise_error_in({text, static_cast<std::size_t>(got)}, options_.host);
  if ((message.msg_flags & MSG_CTRUNC) != 0)
    throw IoError("shm: rank {}: the group's file cannot be taken: {}",
                  name_of(options_, options_.rank), std::strerror(EMFILE));
  return file_in(message);
}

}  // namespace lockstep::comm::detail
