// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/mesh.h"

#include "lockstep/comm/authenticated_listener.h"

namespace lockstep::comm::detail {
namespace {

constexpr auto kHandshake = std::chrono::seconds(5);

// Higher ranks connect to lower ones; a connection's label is the higher rank and the channel.
class Mesh {
 public:
  Mesh(const Bootstrap& bootstrap, int channels)
      : bootstrap_(bootstrap),
        listener_({bootstrap.address, 0}, bootstrap.secret, kHandshake, bootstrap.ports) {
    for (int i = 0; i < channels; ++i)
      sockets_.emplace_back(static_cast<std::size_t>(bootstrap.size()));
    missing_ = channels * (bootstrap.size() - 1 - bootstrap.rank);
  }

  std::vector<std::vector<Socket>> connect() {
    const auto endpoints = bootstrap_.all_gather(to_string(listener_.endpoint()));
    const Deadline deadline = Clock::now() + bootstrap_.timeout;
    for (int rank = 0; rank < bootstrap_.rank; ++rank) connect_to_rank(rank, endpoints, deadline);
    while (missing_ > 0) {
      for (AuthenticatedConnection& connection : listener_.accept()) take(std::move(connection));
      if (missing_ > 0) wait(deadline);
    }
    return std::move(sockets_);
  }

 private:
  void connect_to_rank(int rank, const std::vector<std::string>& endpoints, Deadline deadline) {
    const auto place = static_cast<std::size_t>(rank);
    for (std::size_t channel = 0; channel < sockets_.size(); ++channel) {
      const auto label = static_cast<std::uint64_t>(bootstrap_.rank) << 8 | channel;
      sockets_[channel][place] =
          connect_as(label, rank, parse_endpoint(endpoints[place]), deadline);
    }
  }

  // Who cannot be reached is to blame, by its rank.
  Socket connect_as(std::uint64_t label, int rank, const Endpoint& at, Deadline deadline) {
    const std::string& host = bootstrap_.hosts[static_cast<std::size_t>(rank)];
    const std::string what = fmt::format("connect to rank {} ({})", bootstrap_.name(rank), host);
    try {
      return connect_authenticated(at, "", bootstrap_.secret, label, deadline, what,
                                   bootstrap_.check)
          .socket;
    } catch (const Timeout& error) {
      throw Timeout(error.what(), bootstrap_.name(rank), host, "connect");
    }
  }

  void take(AuthenticatedConnection connection) {
    const auto rank = connection.label >> 8, channel = connection.label & 255;
    const bool known = rank < bootstrap_.hosts.size() && channel < sockets_.size() &&
                       rank > static_cast<std::uint64_t>(bootstrap_.rank);
    if (!known || sockets_[channel][rank]) return;
    sockets_[channel][rank] = std::move(connection.socket);
    --missing_;
  }

  void wait(Deadline deadline) {
    if (Clock::now() >= deadline) time_out();
    if (bootstrap_.check) bootstrap_.check();
    std::vector<pollfd> watched;
    listener_.watch(watched);
    ::poll(watched.data(), watched.size(), poll_milliseconds(deadline, 100));
  }

  [[noreturn]] void time_out() {
    auto rank = static_cast<std::size_t>(bootstrap_.rank) + 1;
    while (rank + 1 < bootstrap_.hosts.size() && sockets_.back()[rank]) ++rank;
    const std::string& host = bootstrap_.hosts[rank];
    const int name = bootstrap_.name(static_cast<int>(rank));
    std::string text = fmt::format("connect: rank {} ({}) did not come to {} within {:.1f} s", name,
                                   host, to_string(listener_.endpoint()),
                                   std::chrono::duration<double>(bootstrap_.timeout).count());
    for (const std::string& refusal : listener_.refusals().last())
      text += "; turned away: " + refusal;
    throw Timeout(text, name, host, "connect");
  }

  const Bootstrap& bootstrap_;
  AuthenticatedListener listener_;
  std::vector<std::vector<Socket>> sockets_;
  int missing_;
};

}  // namespace

std::vector<std::vector<Socket>> connect_mesh(const Bootstrap& bootstrap, int channels) {
  return Mesh(bootstrap, channels).connect();
}

}  // namespace lockstep::comm::detail
