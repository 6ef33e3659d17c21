// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/peer_monitor.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

namespace lockstep::comm::detail {
namespace {

// A message is a letter, a text and a zero byte.
constexpr char kGoodbye = 'G', kAbort = 'A', kQuestion = 'Q', kWaiting = 'W', kWake = 'K';
constexpr std::size_t kLongestReason = 1000;
constexpr std::size_t kLongestMessage = 2 * kLongestReason;  // more is no message
constexpr auto kAnswerTime = std::chrono::milliseconds(250);

// An abort travels on from rank to rank, with the number of the one that began it.
std::string abort_message(int by, const std::string& reason) {
  return kAbort + std::to_string(by) + ' ' + reason + '\0';
}

// To close a connection with something unread would make the system throw away what this end has
// said last.
void drain(const Socket& socket) {
  char block[1024];
  while (::recv(socket.fd(), block, sizeof block, 0) > 0) continue;
}

void watch(const Socket& epoll, const Socket& socket, std::uint64_t rank) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = rank;
  ::epoll_ctl(epoll.fd(), EPOLL_CTL_ADD, socket.fd(), &event);
}

}  // namespace

PeerMonitor::PeerMonitor(const Bootstrap& bootstrap, std::vector<Socket> sockets)
    : rank_(bootstrap.rank),
      hosts_(bootstrap.hosts),
      names_(bootstrap.names),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  for (Socket& socket : sockets) peers_.push_back({std::move(socket)});
  watch(epoll_, wake_, peers_.size());
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (!peers_[rank].socket) continue;
    keep_alive(peers_[rank].socket);
    watch(epoll_, peers_[rank].socket, rank);
  }
}

PeerMonitor::~PeerMonitor() {
  const std::lock_guard lock(sending_);
  // Whoever sees this end close should know why, also when the news came from somebody else.
  if (aborted_)
    tell_all(abort_message(aborted_by_, reason_));
  else if (lost_ >= 0)
    tell_all(abort_message(rank_, fmt::format("rank {} on {} was lost", name(lost_), host(lost_))));
  else
    tell_all({kGoodbye, '\0'});
  for (const Peer& peer : peers_)
    if (peer.socket) drain(peer.socket);
}

void PeerMonitor::tell_all(const std::string& message) {
  for (Peer& peer : peers_)
    if (peer.socket) ::send(peer.socket.fd(), message.data(), message.size(), MSG_NOSIGNAL);
}

bool PeerMonitor::abort(const std::string& reason) {
  const std::lock_guard lock(sending_);
  if (!note_abort(rank_, reason.substr(0, kLongestReason))) return false;
  tell_all(abort_message(rank_, reason_));
  const std::uint64_t one = 1;
  return ::write(wake_.fd(), &one, sizeof one) > 0 || aborted_;  // where it fails it is awake
}

// The first one is the reason for all that follow: what comes from other ranks later is its echo.
bool PeerMonitor::note_abort(int by, const std::string& reason) {
  if (aborted_) return false;
  reason_ = reason;
  aborted_by_ = by;
  return aborted_ = true;
}

void PeerMonitor::read_all() {
  epoll_event events[64];
  const int count = ::epoll_wait(epoll_.fd(), events, 64, 0);
  for (int i = 0; i < count; ++i)
    if (events[i].data.u64 < peers_.size()) read(events[i].data.u64);
}

void PeerMonitor::read(std::size_t rank) {
  Peer& peer = peers_[rank];
  char block[1024];
  const ssize_t got = ::recv(peer.socket.fd(), block, sizeof block, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0) peer.received.append(block, static_cast<std::size_t>(got));
  while (take_message(rank)) continue;
  const bool is_over = got <= 0 || peer.received.size() > kLongestMessage;
  if (is_over) forget(peer);
  if (is_over && !peer.left && lost_ < 0) lost_ = static_cast<int>(rank);
}

bool PeerMonitor::take_message(std::size_t rank) {
  Peer& peer = peers_[rank];
  const std::size_t end = peer.received.find('\0');
  if (end == std::string::npos || end == 0) return false;
  const char letter = peer.received[0];
  const std::string text = peer.received.substr(1, end - 1);
  peer.received.erase(0, end + 1);
  if (letter == kGoodbye) peer.left = true;
  if (letter == kQuestion) answer(peer);
  if (letter == kWaiting) {
    peer.answered = true;
    ask(std::atoi(text.c_str()));
  }
  if (letter == kAbort) take_abort(static_cast<int>(rank), text);
  return true;
}

void PeerMonitor::take_abort(int from, const std::string& text) {
  int by = from;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), by);
  if (error != std::errc() || by < 0 || by >= size() || *end != ' ') return;
  const std::lock_guard lock(sending_);
  note_abort(by, text.substr(static_cast<std::size_t>(end - text.data()) + 1));
}

void PeerMonitor::send(Peer& peer, const std::string& message) {
  const std::lock_guard lock(sending_);
  if (peer.socket) ::send(peer.socket.fd(), message.data(), message.size(), MSG_NOSIGNAL);
}

void PeerMonitor::wake(int rank) { send(peers_[static_cast<std::size_t>(rank)], {kWake, '\0'}); }

void PeerMonitor::ask(int rank) {
  if (rank < 0 || rank >= size() || rank == rank_) return;
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (!std::exchange(peer.asked, true)) send(peer, {kQuestion, '\0'});
}

void PeerMonitor::answer(Peer& peer) {
  if (waits_for_ >= 0) send(peer, kWaiting + std::to_string(waits_for_) + '\0');
}

int PeerMonitor::find_silent(std::string_view operation) {
  const auto silent = [](const Peer& peer) { return peer.asked && !peer.answered; };
  for (const Deadline end = Clock::now() + kAnswerTime; Clock::now() < end;) {
    if (std::none_of(peers_.begin(), peers_.end(), silent)) break;
    pollfd watched{epoll_.fd(), POLLIN, 0};
    ::poll(&watched, 1, poll_milliseconds(end));
    check(operation);
  }
  const auto place = std::find_if(peers_.begin(), peers_.end(), silent);
  return place == peers_.end() ? -1 : static_cast<int>(place - peers_.begin());
}

void PeerMonitor::forget(Peer& peer) {
  const std::lock_guard lock(sending_);
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, peer.socket.fd(), nullptr);
  peer.socket.close();
}

void PeerMonitor::check(std::string_view operation) {
  if (lost_ < 0) read_all();
  if (aborted_) {
    const std::lock_guard lock(sending_);
    const int by = name(aborted_by_);
    throw Aborted(fmt::format("{}: aborted by rank {}: {}", operation, by, reason_), by,
                  host(aborted_by_), std::string(operation));
  }
  if (lost_ >= 0) throw_lost(lost_, operation, "its connection closed");
}

void PeerMonitor::explain_close(int rank, std::string_view operation, const std::string& why) {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  const Deadline end = Clock::now() + kAnswerTime;
  for (check(operation); !peer.left && Clock::now() < end; check(operation)) {
    pollfd watched{epoll_.fd(), POLLIN, 0};
    ::poll(&watched, 1, poll_milliseconds(end));
  }
  throw_lost(rank, operation, why);
}

void PeerMonitor::throw_lost(int rank, std::string_view operation, const std::string& why) const {
  throw PeerLost(
      fmt::format("{}: rank {} on {} was lost: {}", operation, name(rank), host(rank), why),
      name(rank), host(rank), std::string(operation));
}

void PeerMonitor::throw_timeout(std::span<const Transfer> transfers, std::string_view operation,
                                Deadline begin) {
  const Transfer* late = nullptr;
  for (const Transfer& one : transfers)
    if (one.done < one.bytes.size() && !one.later) {
      late = &one;
      ask(one.peer);
    }
  std::string more;
  if (late != nullptr)
    more =
        fmt::format("; {} of {} bytes {} rank {}", late->done, late->bytes.size(),
                    late->kind == Transfer::Kind::send ? "went to" : "came from", name(late->peer));
  throw_timeout(late == nullptr ? -1 : late->peer, operation, begin, more);
}

void PeerMonitor::throw_timeout(int peer, std::string_view operation, Deadline begin,
                                const std::string& more) {
  const std::chrono::duration<double> waited = Clock::now() - begin;
  ask(peer);
  const int silent = find_silent(operation);
  const int rank = silent >= 0 ? silent : peer;
  std::string text = fmt::format("{}: rank {} on {} did not do its part within {:.1f} s", operation,
                                 name(rank), rank >= 0 ? host(rank) : "no host", waited.count());
  text += more;
  if (silent < 0) text += "; it waits too: the ranks' calls do not match, or a link is too slow";
  throw Timeout(text, name(rank), rank >= 0 ? host(rank) : "", std::string(operation));
}

void check_transfers(std::span<const Transfer> transfers, int rank, int size,
                     std::string_view operation) {
  for (const Transfer& one : transfers)
    if (one.peer < 0 || one.peer >= size || one.peer == rank)
      throw InvalidArgument("{}: rank {} of {} has no peer {}", operation, rank, size, one.peer);
}

}  // namespace lockstep::comm::detail
