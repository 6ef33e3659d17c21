// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/comm/messages/message_client.h"
#include "lockstep/kvstore/servers/table_messages.h"
#include "lockstep/kvstore/servers/view.h"

namespace lockstep::kvstore {

class ServerConnections;

// A request to whoever keeps a range. Where there are replicas, one that is lost on its way goes
// again, to the server that has taken over; servers count it once.
class ServerReply {
 public:
  // Whether wait() returns, or throws, at once. One that was lost goes again here, too: what others
  // wait for is not held up by what this side waits for.
  bool is_done();
  // As comm::PendingReply. Meanwhile `check` is called every now and then: it must not throw.
  comm::Reply wait(const std::function<void()>& check = {});

 private:
  friend class ServerConnections;
  struct Request {
    int range = 0;
    comm::Payload payload;
    comm::RequestOptions options;
    comm::Deadline deadline;
  };
  ServerConnections* connections_ = nullptr;
  std::shared_ptr<const Request> request_;
  std::shared_ptr<comm::MessageClient> client_;
  comm::PendingReply reply_;
  std::optional<comm::Reply> answer_;
  std::exception_ptr failure_;  // in place of an answer

  void start_again(const comm::PeerLost& error);
};

// A worker's connections to the servers of its job, by what they keep: range r is server r's, until
// that one is lost. From any number of threads.
class ServerConnections {
 public:
  // Waits for every server. Throws comm::Timeout, Refused.
  ServerConnections(const ServedJob& job, int rank);

  int servers() const { return job_.servers; }
  // Whether all of them are on this host.
  bool are_near() const { return are_near_; }

  // Memory for floats of a request, which whoever keeps the range reads where they are written, if
  // it is on this host.
  comm::MessageBuffer allocate(int range, std::size_t bytes) {
    return client_of(range)->allocate(bytes);
  }

  // Part 0 is the message; floats follow it. `what` begins the messages of errors, which name the
  // server. A timeout of 0 is the job's.
  template <class Message>
  ServerReply request(int range, wire::Topic topic, const Message& message, const std::string& what,
                      const comm::Payload& floats = {}, int priority = 0,
                      std::chrono::milliseconds timeout = {}) {
    return send(range, topic, wire::encode(message), what, floats, priority, timeout);
  }
  template <class Message>
  comm::Payload ask(int range, wire::Topic topic, const Message& message, const std::string& what,
                    const comm::Payload& floats = {}) {
    return request(range, topic, message, what, floats).wait().payload;
  }

 private:
  friend class ServerReply;
  using Client = std::shared_ptr<comm::MessageClient>;

  bool has_replicas() const { return job_.replicas > 1; }
  ServerReply send(int range, wire::Topic topic, std::string message, const std::string& what,
                   const comm::Payload& floats, int priority, std::chrono::milliseconds timeout);
  void start(ServerReply& reply);
  Client client_of(int range);
  void await_client(int range, comm::Deadline deadline);
  Client find_client(int range, std::chrono::milliseconds to_find,
                     std::chrono::milliseconds to_connect);
  void remove(int server, const std::string& why);
  Client connect(int server, std::chrono::milliseconds to_find,
                 std::chrono::milliseconds to_connect);
  void repair(int range, const Client& lost, const comm::PeerLost& error);

  const ServedJob job_;
  int rank_;
  SharedView shared_;
  bool are_near_ = true;
  std::mutex mutex_;  // of all below
  View view_;
  std::vector<Client> clients_;  // by server; null: not needed so far
};

// Of a reply. Throws Corrupt.
template <class Message>
Message message_in(const comm::Payload& payload) {
  if (payload.parts() == 0) throw Corrupt("message: it is empty");
  return wire::decode<Message>(payload.text(0));
}

}  // namespace lockstep::kvstore
