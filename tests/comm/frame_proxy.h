// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "lockstep/comm/detail/message_wire.h"
#include "lockstep/comm/messages/message_hub.h"

namespace lockstep::testing {

// How often a network does what to a message, of a thousand. A connection that has dropped
// something is cut, as the system does it: nothing is missing in the middle of one.
struct Disturbance {
  int delayed = 0, repeated = 0, reordered = 0, dropped = 0;
  std::chrono::microseconds longest_delay{3000};
};

// Stands between a server and its clients, in one process: takes their messages, and passes them on
// late, twice, in another order or not at all.
class FrameProxy {
 public:
  FrameProxy(std::shared_ptr<comm::MessageHub> hub, const std::string& secret,
             const comm::Endpoint& server, const Disturbance& disturbance, std::uint64_t seed);
  ~FrameProxy();

  comm::Endpoint endpoint() const { return listening_->endpoint(); }
  // Messages to which it has happened.
  struct Counts {
    std::atomic<int> passed = 0, delayed = 0, repeated = 0, reordered = 0, dropped = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  using Frames = std::vector<comm::detail::Frame>;
  // Messages of one direction of a connection.
  struct Lane {
    struct Coming {
      Frames frames = {};
      std::uint32_t parts = 0;  // that have begun
    };
    std::map<std::uint64_t, Coming> coming = {};  // by number
    std::multimap<comm::Deadline, Frames> waiting = {};
    comm::Deadline last = {};  // when the latest of those in order is due
    Frames sending = {};       // the rest of one, backwards
  };
  struct Link {
    std::unique_ptr<comm::detail::MessageWire> to_server = {};
    Lane up = {}, down = {};
    bool is_over = false;
  };

  void run(const std::stop_token& stop);
  bool take_from_clients();
  void open(const comm::detail::WireEvent& event);
  bool take_from_server(Link& link);
  void take(Link& link, Lane& lane, comm::detail::Frame frame);
  void pass(Link& link, Lane& lane, Frames message);
  template <class Send>
  void send_due(Lane& lane, comm::Deadline now, const Send& send);
  void send_all_due(comm::Deadline now);
  bool happens(int of_thousand) { return static_cast<int>(random_() % 1000) < of_thousand; }
  std::chrono::microseconds some_time();

  comm::MessageClientOptions to_server_;
  Disturbance disturbance_;
  std::mt19937_64 random_;
  Counts counts_;
  comm::detail::Waker waker_;
  std::unique_ptr<comm::detail::MessageWire> listening_;
  std::map<std::uint64_t, Link> links_;
  std::jthread thread_;
};

}  // namespace lockstep::testing
