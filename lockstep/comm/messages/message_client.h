// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "lockstep/comm/messages/message_options.h"
#include "lockstep/comm/messages/payload.h"
#include "lockstep/comm/socket.h"

namespace lockstep::comm {

struct MessageClientOptions : MessageOptions {
  Endpoint server;
  std::string source;            // the address to connect from, or empty
  std::string what = "connect";  // begins the messages of errors of connecting
  std::string name = "peer";     // what this client calls itself
  std::chrono::milliseconds connect_timeout{30'000};
  // Whether a lost connection is made again, and what is unanswered sent again under its old
  // number. Otherwise it is PeerLost.
  bool reconnects = true;
  // Back-pressure: request() waits while so many requests are unanswered, or so many of their bytes
  // unsent.
  std::size_t most_unanswered = 16'384;
  std::size_t most_unsent_bytes = std::size_t{256} << 20;
};

struct RequestOptions {
  std::string what = "request";  // begins the messages of errors
  std::uint32_t topic = 0;       // the server's own matter
  int priority = 0;              // higher ones go first, also between the segments of a lower one
  std::chrono::milliseconds timeout{60'000};
  std::optional<std::uint64_t> generation = {};  // the client's, if nothing is said
};

struct Reply {
  std::uint64_t generation = 0;  // the server's
  Payload payload = {};
};

namespace detail {
struct ClientShared;
struct PendingRequest;
}  // namespace detail

// A request under way. It may outlive its client.
class PendingReply {
 public:
  bool is_done() const;
  // Throws Timeout at the request's deadline, PeerLost, Aborted, StaleGeneration, RequestFailed:
  // each names the server and what was asked. Once. Meanwhile `check` is called every now and then:
  // what it throws ends the wait.
  Reply wait(const std::function<void()>& check = {});

 private:
  friend class MessageClient;
  std::shared_ptr<detail::ClientShared> shared_;
  std::shared_ptr<detail::PendingRequest> request_;
};

// Asks one server, with many requests under way at once. From any number of threads.
class MessageClient {
 public:
  // Connects. Throws Refused, Corrupt (no server of ours), Timeout.
  explicit MessageClient(const MessageClientOptions& options);
  // Whatever is unanswered ends with Aborted. The server hears that this client has left, or, after
  // an abort(), that it was lost.
  ~MessageClient();
  MessageClient(const MessageClient&) = delete;
  MessageClient& operator=(const MessageClient&) = delete;

  // Throws Timeout when there is no room for it by its deadline, InvalidArgument when it is too
  // long, Aborted, PeerLost.
  PendingReply request(Payload payload, const RequestOptions& options = {});
  // The same, and waits.
  Reply ask(Payload payload, const RequestOptions& options = {});

  // Memory for a part of a request: what is written there the server reads where it lies, if it is
  // on this host. Anybody's memory otherwise, or when that is full. Each message has its own.
  MessageBuffer allocate(std::size_t bytes);

  void set_generation(std::uint64_t generation);
  bool is_connected() const;
  // This side's address and port of the first connection.
  const Endpoint& local() const;
  // How the server knows this client.
  std::uint64_t id() const;

  // Every request, now and later, throws Aborted.
  void abort(const std::string& reason);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::comm
