// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "lockstep/comm/messages/message_client.h"
#include "lockstep/kvstore/servers/served_job.h"
#include "lockstep/kvstore/servers/table_messages.h"

namespace lockstep::kvstore {

// A worker's connections to all servers of its job. From any number of threads.
class ServerConnections {
 public:
  // Waits for every server. Throws comm::Timeout, Refused.
  ServerConnections(const ServedJob& job, int rank);

  int servers() const { return static_cast<int>(clients_.size()); }
  // host:port.
  const std::string& place(int server) const { return places_[index(server)]; }
  // Whether all of them are on this host.
  bool are_near() const { return are_near_; }

  // Part 0 is the message; floats follow it. `what` begins the messages of errors, which name the
  // server. A timeout of 0 is the job's.
  template <class Message>
  comm::PendingReply request(int server, wire::Topic topic, const Message& message,
                             const std::string& what, comm::Payload floats = {}, int priority = 0,
                             std::chrono::milliseconds timeout = {}) {
    return send(server, topic, wire::encode(message), what, floats, priority, timeout);
  }
  template <class Message>
  comm::Payload ask(int server, wire::Topic topic, const Message& message, const std::string& what,
                    const comm::Payload& floats = {}) {
    return request(server, topic, message, what, floats).wait().payload;
  }

 private:
  static std::size_t index(int server) { return static_cast<std::size_t>(server); }
  comm::PendingReply send(int server, wire::Topic topic, std::string message,
                          const std::string& what, const comm::Payload& floats, int priority,
                          std::chrono::milliseconds timeout);

  std::chrono::milliseconds timeout_;
  bool are_near_ = true;
  std::vector<std::string> places_;
  std::vector<std::unique_ptr<comm::MessageClient>> clients_;
};

// Of a reply. Throws Corrupt.
template <class Message>
Message message_in(const comm::Payload& payload) {
  if (payload.parts() == 0) throw Corrupt("message: it is empty");
  return wire::decode<Message>(payload.text(0));
}

}  // namespace lockstep::kvstore
