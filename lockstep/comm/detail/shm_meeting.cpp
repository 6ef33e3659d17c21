// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/shm_meeting.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace lockstep::comm::detail {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(1);
constexpr auto kFarewell = std::chrono::seconds(2);
constexpr std::size_t kLongest = 1000;  // of a packet

// What is said, each in a packet of its own. A guest says its rank first. An error has its rank and
// its text after it.
constexpr char kFile = 'f', kMapped = 'm', kGo = 'g', kLost = 'l', kTimeout = 't', kError = 'x';

struct Address {
  sockaddr_un name{};
  socklen_t length;
  explicit Address(const std::string& job) {
    name.sun_family = AF_UNIX;
    const std::string text = "lockstep-" + job;  // after a zero: no file
    std::memcpy(name.sun_path + 1, text.data(), text.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

Socket make_socket() {
  Socket socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw IoError("shm: socket: {}", std::strerror(errno));
  return socket;
}

bool is_ours(const Socket& socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

// Whoever is not there any more is noticed by whoever reads.
void say(const Socket& socket, const void* bytes, std::size_t count) {
  static_cast<void>(::send(socket.fd(), bytes, count, MSG_NOSIGNAL));
}

void say_with_file(const Socket& socket, int file) {
  char kind = kFile;
  iovec data{&kind, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &file, sizeof file);
  ::sendmsg(socket.fd(), &message, MSG_NOSIGNAL);
}

int file_in(msghdr& message) {
  int file = -1;
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head != nullptr && head->cmsg_type == SCM_RIGHTS)
    std::memcpy(&file, CMSG_DATA(head), sizeof file);
  return file;
}

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

std::string packet_of(const Error& error) {
  const auto* comm = dynamic_cast<const CommError*>(&error);
  const int rank = comm == nullptr ? -1 : comm->rank();
  std::string packet(1, comm == nullptr                                 ? kError
                        : dynamic_cast<const Timeout*>(comm) != nullptr ? kTimeout
                                                                        : kLost);
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
  if (packet[0] == kError) throw IoError("{}", text);
}

}  // namespace

ShmHost::ShmHost(const ShmOptions& options, Deadline deadline)
    : options_(options), deadline_(deadline), listener_(make_socket()) {
  const Address address(options.job);
  if (::bind(listener_.fd(), address.get(), address.length) != 0 ||
      ::listen(listener_.fd(), options.size) != 0)
    throw IoError("shm: job '{}': cannot be met: {}", options.job, std::strerror(errno));
}

void ShmHost::share(int file) {
  while (!are_all(true)) {
    if (Clock::now() > deadline_) give_up();
    wait(deadline_);
    let_in();
    for (Guest& guest : guests_) hear(guest, file);
    std::erase_if(guests_, [](const Guest& guest) { return !guest.socket; });
  }
  for (const Guest& guest : guests_)
    if (guest.rank > 0) say(guest.socket, &kGo, 1);
}

void ShmHost::send_away(const Error& error) {
  const Deadline end = std::min<Deadline>(deadline_, Clock::now() + kFarewell);
  const std::string message = packet_of(error);
  while (!are_all(false) && Clock::now() < end) {
    wait(end);
    let_in();
    for (Guest& guest : guests_) hear(guest, -1);
  }
  for (const Guest& guest : guests_)
    if (guest.socket) say(guest.socket, message.data(), message.size());
}

// Those who come, or those who have mapped the file.
bool ShmHost::are_all(bool mapped) const {
  const auto count = std::count_if(guests_.begin(), guests_.end(), [&](const Guest& guest) {
    return guest.rank > 0 && (guest.has_mapped || !mapped);
  });
  return count == options_.size - 1;
}

void ShmHost::wait(Deadline deadline) const {
  std::vector<pollfd> watched{{listener_.fd(), POLLIN, 0}};
  for (const Guest& guest : guests_)
    if (guest.socket) watched.push_back({guest.socket.fd(), POLLIN, 0});
  ::poll(watched.data(), watched.size(), poll_milliseconds(deadline));
}

void ShmHost::let_in() {
  while (true) {
    Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (is_ours(socket)) guests_.push_back({std::move(socket)});
  }
}

// Without a file nobody is asked for more than who it is.
void ShmHost::hear(Guest& guest, int file) {
  if (!guest.socket) return;
  int rank = -1;
  const ssize_t got = ::recv(guest.socket.fd(), &rank, sizeof rank, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got == sizeof rank && guest.rank < 0) return welcome(guest, rank, file);
  if (got == 1 && guest.rank > 0) {
    guest.has_mapped = true;
    return;
  }
  guest.socket.close();
  if (guest.rank > 0 && file >= 0) throw_lost(options_, guest.rank);
}

void ShmHost::welcome(Guest& guest, int rank, int file) {
  const auto is_there = [&](const Guest& other) { return other.rank == rank; };
  if (rank < 1 || rank >= options_.size || std::any_of(guests_.begin(), guests_.end(), is_there))
    return guest.socket.close();
  guest.rank = rank;
  if (file >= 0) say_with_file(guest.socket, file);
}

void ShmHost::give_up() const {
  int missing = 1;
  const auto has_come = [&](const Guest& guest) {
    return guest.rank == missing && guest.has_mapped;
  };
  while (missing + 1 < options_.size && std::any_of(guests_.begin(), guests_.end(), has_come))
    ++missing;
  throw_missed(options_, missing);
}

ShmGuest::ShmGuest(const ShmOptions& options, Deadline deadline)
    : options_(options), deadline_(deadline) {
  connect();
  say(socket_, &options.rank, sizeof options.rank);
}

void ShmGuest::connect() {
  const Address address(options_.job);
  while (true) {
    socket_ = make_socket();
    if (::connect(socket_.fd(), address.get(), address.length) == 0) break;
    if (Clock::now() > deadline_) throw_missed(options_, 0);
    std::this_thread::sleep_for(kPoll);
  }
  if (!is_ours(socket_))
    throw IoError("shm: job '{}': another user's process is there", options_.job);
}

int ShmGuest::take_file() {
  const int file = receive();
  if (file < 0) throw_lost(options_, 0);
  return file;
}

void ShmGuest::await_all() {
  say(socket_, &kMapped, 1);
  receive();
}

int ShmGuest::receive() {
  char text[kLongest];
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  iovec data{text, sizeof text};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  ssize_t got = -1;
  while ((got = ::recvmsg(socket_.fd(), &message, MSG_CMSG_CLOEXEC)) < 0 &&
         (errno == EAGAIN || errno == EINTR)) {
    if (Clock::now() > deadline_) throw_missed(options_, 0);
    pollfd watched{socket_.fd(), POLLIN, 0};
    ::poll(&watched, 1, poll_milliseconds(deadline_));
  }
  if (got <= 0) throw_lost(options_, 0);
  raise_error_in({text, static_cast<std::size_t>(got)}, options_.host);
  return file_in(message);
}

}  // namespace lockstep::comm::detail
