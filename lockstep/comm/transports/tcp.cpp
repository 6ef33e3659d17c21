// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/transports/tcp.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "lockstep/comm/detail/mesh.h"
#include "lockstep/comm/detail/monitored_transport.h"

namespace lockstep::comm {
namespace {

class TcpTransport final : public detail::MonitoredTransport {
 public:
  explicit TcpTransport(const Bootstrap& bootstrap)
      : TcpTransport(bootstrap, detail::connect_mesh(bootstrap, 2)) {}

  std::string_view name() const override { return "tcp"; }

  void exchange(std::span<Transfer> transfers, Deadline deadline,
                std::string_view operation) override;

 private:
  TcpTransport(const Bootstrap& bootstrap, std::vector<std::vector<Socket>> sockets)
      : MonitoredTransport(bootstrap, std::move(sockets[0])), sockets_(std::move(sockets[1])) {
    for (const Socket& socket : sockets_)
      if (socket) restore_pacing(socket);
  }

  // Of several transfers one way with one peer, only the first that is not done may move.
  template <class F>
  void for_each_active(std::span<Transfer> transfers, F&& visit);
  bool move(Transfer& transfer, std::string_view operation);
  bool move_on(std::span<Transfer> transfers, std::string_view operation) override;
  bool sleep(std::span<Transfer> transfers, Deadline until) override;

  std::vector<Socket> sockets_;
  std::vector<unsigned> seen_;
  unsigned round_ = 0;
  std::vector<pollfd> watched_;
};

template <class F>
void TcpTransport::for_each_active(std::span<Transfer> transfers, F&& visit) {
  seen_.resize(2 * sockets_.size());
  ++round_;
  for (Transfer& one : transfers) {
    if (one.done == one.bytes.size()) continue;
    const auto way = 2 * static_cast<std::size_t>(one.peer) + (one.kind == Transfer::Kind::send);
    if (seen_[way] != round_) visit(one);
    if (one.done < one.bytes.size()) seen_[way] = round_;
  }
}

// True when bytes moved.
bool TcpTransport::move(Transfer& one, std::string_view operation) {
  const int fd = sockets_[static_cast<std::size_t>(one.peer)].fd();
  const auto rest = one.bytes.subspan(one.done);
  const ssize_t moved = one.kind == Transfer::Kind::send
                            ? ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL)
                            : ::recv(fd, rest.data(), rest.size(), 0);
  if (moved > 0) one.done += static_cast<std::size_t>(moved);
  if (moved > 0) return true;
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  const std::string why = moved == 0 ? "it closed the connection" : std::strerror(errno);
  monitor_.explain_close(one.peer, operation, why);
}

bool TcpTransport::move_on(std::span<Transfer> transfers, std::string_view operation) {
  bool moved = false;
  for_each_active(transfers, [&](Transfer& one) { moved |= move(one, operation); });
  return moved;
}

bool TcpTransport::sleep(std::span<Transfer> transfers, Deadline until) {
  watched_.assign(1, {monitor_.fd(), POLLIN, 0});
  for_each_active(transfers, [&](const Transfer& one) {
    const short events = one.kind == Transfer::Kind::send ? POLLOUT : POLLIN;
    watched_.push_back({sockets_[static_cast<std::size_t>(one.peer)].fd(), events, 0});
  });
  ::poll(watched_.data(), watched_.size(), poll_milliseconds(until));
  return watched_[0].revents != 0;
}

void TcpTransport::exchange(std::span<Transfer> transfers, Deadline deadline,
                            std::string_view operation) {
  detail::check_transfers(transfers, rank(), size(), operation);
  monitor_.check(operation);
  complete(transfers, deadline, operation);
}

}  // namespace

std::unique_ptr<Transport> connect_tcp(const Bootstrap& bootstrap) {
  return std::make_unique<TcpTransport>(bootstrap);
}

}  // namespace lockstep::comm
