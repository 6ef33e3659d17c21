// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/transports/zmq.h"

#include <algorithm>
#include <cstring>
#include <vector>
#include <zmq.hpp>

#include "lockstep/comm/detail/mesh.h"
#include "lockstep/comm/detail/monitored_transport.h"
#include "lockstep/comm/detail/zmq_authenticator.h"
#include "lockstep/comm/detail/zmq_bind.h"
#include "lockstep/comm/detail/zmq_context.h"
#include "lockstep/comm/detail/zmq_interrupts.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kLongestMessage = 256 << 10;  // the longest message
constexpr int kHighWater = 16;                      // messages that wait on each side of a pair
constexpr int kLinger = 2000;                       // milliseconds for the last bytes to leave
constexpr std::size_t kKey = detail::kCurveKey;
// What anybody may send us before they have proved who they are, and the others afterwards: a piece
// with what CURVE puts around it (33 bytes: rfc.zeromq.org/spec/26). More closes the connection.
constexpr std::int64_t kLongestFrame = kLongestMessage + 64;
constexpr int kHandshakeTime = 5000;  // milliseconds; then a silent stranger is hung up on

// What a rank tells the others: its public key, and a line for each rank: where it listens for it.
struct Contact {
  std::string key;
  std::vector<std::string> endpoints = {};
};

std::string to_bytes(const Contact& contact) {
  std::string bytes = contact.key;
  for (const std::string& endpoint : contact.endpoints) bytes += "\n" + endpoint;
  return bytes;
}

Contact to_contact(const std::string& bytes) {
  Contact contact{bytes.substr(0, kKey)};
  for (std::size_t begin = kKey; begin < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', begin + 1), bytes.size());
    contact.endpoints.push_back(bytes.substr(begin + 1, end - begin - 1));
    begin = end;
  }
  return contact;
}

class ZmqTransport final : public detail::MonitoredTransport {
 public:
  explicit ZmqTransport(const Bootstrap& bootstrap)
      : MonitoredTransport(bootstrap, std::move(detail::connect_mesh(bootstrap, 1)[0])),
        peers_(bootstrap.hosts.size()) {
    connect(bootstrap);
  }
  // After an error there is nothing worth waiting for.
  ~ZmqTransport() override {
    for (Peer& one : peers_)
      if (one.socket) one.socket.set(zmq::sockopt::linger, broken_ ? 0 : kLinger);
  }

  std::string_view name() const override { return "zmq"; }
  std::unique_ptr<Transport> connect_group(const Bootstrap& bootstrap) const override {
    return connect_zmq(bootstrap);
  }

  void exchange(std::span<Transfer> transfers, Deadline deadline,
                std::string_view operation) override;

 private:
  struct Peer {
    zmq::socket_t socket = {};
    zmq::message_t message = {};  // the one being read
    std::size_t taken = 0;
    unsigned seen[2] = {0, 0};
  };
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  void connect(const Bootstrap& bootstrap);
  zmq::socket_t make_socket(const detail::CurveKeys& keys, bool v6);
  Contact listen(const detail::CurveKeys& keys, const Bootstrap& bootstrap);
  void connect_to_lower(const std::vector<std::string>& contacts,
                        detail::ZmqAuthenticator& authenticator);
  void greet(detail::ZmqAuthenticator& authenticator, const Bootstrap& bootstrap);
  template <class F>
  void for_each_active(std::span<Transfer> transfers, F&& visit);
  bool move_send(Transfer& transfer);
  bool move_receive(Transfer& transfer);
  bool move_on(std::span<Transfer> transfers, std::string_view operation) override;
  bool sleep(std::span<Transfer> transfers, Deadline until) override;

  zmq::context_t context_ = detail::make_zmq_context();
  std::vector<Peer> peers_;
  detail::ZmqAuthenticator* authenticator_ = nullptr;  // while the group connects
  unsigned round_ = 0;
  bool broken_ = false;
};

zmq::socket_t ZmqTransport::make_socket(const detail::CurveKeys& keys, bool v6) {
  zmq::socket_t socket(context_, zmq::socket_type::pair);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::sndhwm, kHighWater);
  socket.set(zmq::sockopt::rcvhwm, kHighWater);
  socket.set(zmq::sockopt::maxmsgsize, kLongestFrame);
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeTime);
  socket.set(zmq::sockopt::ipv6, v6);
  socket.set(zmq::sockopt::heartbeat_ivl, 2000);
  socket.set(zmq::sockopt::heartbeat_timeout, 10'000);
  socket.set(zmq::sockopt::curve_publickey, keys.open);
  socket.set(zmq::sockopt::curve_secretkey, keys.secret);
  return socket;
}

// For every higher rank a socket of its own.
Contact ZmqTransport::listen(const detail::CurveKeys& keys, const Bootstrap& bootstrap) {
  const std::string& address = bootstrap.address;
  Contact contact{keys.open, std::vector<std::string>(peers_.size())};
  const bool v6 = address.find(':') != std::string::npos;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    zmq::socket_t& socket = peer(other).socket = make_socket(keys, v6);
    if (other < rank()) continue;
    socket.set(zmq::sockopt::zap_domain, "lockstep");
    socket.set(zmq::sockopt::curve_server, true);
    detail::uninterrupted([&] { detail::bind_in(socket, address, bootstrap.ports); });
    contact.endpoints[static_cast<std::size_t>(other)] = socket.get(zmq::sockopt::last_endpoint);
  }
  return contact;
}

void ZmqTransport::connect_to_lower(const std::vector<std::string>& contacts,
                                    detail::ZmqAuthenticator& authenticator) {
  for (int other = 0; other < size(); ++other) {
    const Contact contact = to_contact(contacts[static_cast<std::size_t>(other)]);
    if (other > rank()) authenticator.admit_key(contact.key);
    if (other >= rank()) continue;
    peer(other).socket.set(zmq::sockopt::curve_serverkey, contact.key);
    detail::uninterrupted(
        [&] { peer(other).socket.connect(contact.endpoints[static_cast<std::size_t>(rank())]); });
  }
}

void ZmqTransport::connect(const Bootstrap& bootstrap) {
  try {
    const detail::CurveKeys keys;
    detail::ZmqAuthenticator authenticator(context_);
    const Contact contact = listen(keys, bootstrap);
    connect_to_lower(bootstrap.all_gather(to_bytes(contact)), authenticator);
    greet(authenticator, bootstrap);
  } catch (const zmq::error_t& error) {
    throw IoError("zmq: {}: {}", bootstrap.address, error.what());
  }
}

// A byte each way: whoever has it has passed the authenticator.
void ZmqTransport::greet(detail::ZmqAuthenticator& authenticator, const Bootstrap& bootstrap) {
  authenticator_ = &authenticator;
  greet_all(bootstrap);
  authenticator_ = nullptr;
}

// Of several transfers one way with one peer, only the first that is not done may move.
template <class F>
void ZmqTransport::for_each_active(std::span<Transfer> transfers, F&& visit) {
  ++round_;
  for (Transfer& one : transfers) {
    if (one.done == one.bytes.size()) continue;
    unsigned& seen = peer(one.peer).seen[one.kind == Transfer::Kind::send];
    if (seen != round_) visit(one);
    if (one.done < one.bytes.size()) seen = round_;
  }
}

bool ZmqTransport::move_send(Transfer& one) {
  bool moved = false;
  while (one.done < one.bytes.size()) {
    const auto piece =
        one.bytes.subspan(one.done, std::min(kLongestMessage, one.bytes.size() - one.done));
    const auto send = [&] {
      return peer(one.peer).socket.send(zmq::buffer(piece.data(), piece.size()),
                                        zmq::send_flags::dontwait);
    };
    if (!detail::uninterrupted(send)) break;
    one.done += piece.size();
    moved = true;
  }
  return moved;
}

bool ZmqTransport::move_receive(Transfer& one) {
  Peer& from = peer(one.peer);
  bool moved = false;
  while (one.done < one.bytes.size()) {
    if (from.taken == from.message.size()) {
      from.taken = 0;
      from.message.rebuild();
      const auto receive = [&] {
        return from.socket.recv(from.message, zmq::recv_flags::dontwait);
      };
      if (!detail::uninterrupted(receive)) break;
    }
    const std::size_t count =
        std::min(from.message.size() - from.taken, one.bytes.size() - one.done);
    std::memcpy(one.bytes.data() + one.done, from.message.data<std::byte>() + from.taken, count);
    from.taken += count;
    one.done += count;
    moved = true;
  }
  return moved;
}

bool ZmqTransport::move_on(std::span<Transfer> transfers, std::string_view /*operation*/) {
  bool moved = false;
  if (authenticator_ != nullptr) authenticator_->answer();
  for_each_active(transfers, [&](Transfer& one) {
    moved |= one.kind == Transfer::Kind::send ? move_send(one) : move_receive(one);
  });
  return moved;
}

bool ZmqTransport::sleep(std::span<Transfer> transfers, Deadline until) {
  std::vector<zmq::pollitem_t> watched{{nullptr, monitor_.fd(), ZMQ_POLLIN, 0}};
  if (authenticator_ != nullptr)
    watched.push_back({authenticator_->socket().handle(), 0, ZMQ_POLLIN, 0});
  for_each_active(transfers, [&](const Transfer& one) {
    const short events = one.kind == Transfer::Kind::send ? ZMQ_POLLOUT : ZMQ_POLLIN;
    watched.push_back({peer(one.peer).socket.handle(), 0, events, 0});
  });
  detail::poll_sockets(watched, poll_milliseconds(until, 500));
  return watched[0].revents != 0;
}

void ZmqTransport::exchange(std::span<Transfer> transfers, Deadline deadline,
                            std::string_view operation) {
  detail::check_transfers(transfers, rank(), size(), operation);
  monitor_.check(operation);
  if (transfers.empty() && !has_side_transfers()) return;
  if (broken_ && !transfers.empty())
    monitor_.throw_lost(transfers[0].peer, operation, "an earlier error closed it");
  broken_ = true;  // unless all goes well
  try {
    complete(transfers, deadline, operation);
  } catch (const zmq::error_t& error) {
    throw IoError("{}: zmq: {}", operation, error.what());
  }
  broken_ = false;
}

}  // namespace

std::unique_ptr<Transport> connect_zmq(const Bootstrap& bootstrap) {
  return std::make_unique<ZmqTransport>(bootstrap);
}

}  // namespace lockstep::comm
