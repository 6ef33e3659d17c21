// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "lockstep/comm/messages/message_options.h"
#include "lockstep/comm/messages/payload.h"
#include "lockstep/comm/refusal_log.h"
#include "lockstep/comm/socket.h"

namespace lockstep::comm {

struct MessageServerOptions : MessageOptions {
  // Port 0 takes a free one. The data has a port beside it: the next one, if that is free.
  Endpoint listen{"127.0.0.1", 0};
  // Of which a free one is taken, for the data too.
  PortRange ports = {};
  // For a connection to prove the secret, and for its data connection to come.
  std::chrono::milliseconds handshake_timeout{5'000};
  // Back-pressure: while so many bytes or requests have come that nobody has taken by receive(), no
  // more are read, and their senders wait.
  std::size_t most_waiting_bytes = std::size_t{256} << 20;
  std::size_t most_waiting = 65'536;
  // What is remembered of a client that has gone (its requests that were answered), in case that it
  // comes back; for as long as one is unanswered in any case. What a forgotten one asks again
  // fails.
  std::chrono::milliseconds remember{60'000};
  // Otherwise nobody is served before the first receive(). The port is open and the network library
  // has threads of its own from the start: a process that forks later must do nothing but exec.
  bool serves_at_once = true;
};

// A client, by a number that it keeps when it connects again, by what it calls itself, and where
// its connection comes from.
struct MessagePeer {
  std::uint64_t id = 0;
  std::string name;
  Endpoint from = {};
};

// What happens at a server.
struct MessageEvent {
  // left: it said so; lost: its connection closed; silent: no heartbeat came, which is its end
  // where the silent are dropped; heard: one came again. A client that connects again is connected
  // again.
  enum class Kind { request, connected, left, lost, silent, heard };
  Kind kind = Kind::request;
  MessagePeer peer = {};
  std::string reason = {};  // of lost and silent

  // Of a request.
  std::uint64_t request = 0;  // its number, of this peer's; a repeated request has the same one
  std::uint32_t topic = 0;
  std::uint64_t generation = 0;
  // It has been answered before, by a reply too long to be kept: only the reply is wanted again.
  bool is_repeated = false;
  Payload payload = {};
};

// Answers requests of many clients that come and go. Requests are answered later, in any order and
// from any thread. A request that comes again (its client connected anew) is not seen twice while
// it is unanswered, nor after a short answer, which is kept and sent again, in whatever generation.
// Requests that wait to be received when the generation changes are refused as those that come
// later.
class MessageServer {
 public:
  // Listens from now on. Throws IoError as listen_on does.
  explicit MessageServer(const MessageServerOptions& options);
  // What has been answered is sent, within a second.
  ~MessageServer();
  MessageServer(const MessageServer&) = delete;
  MessageServer& operator=(const MessageServer&) = delete;

  Endpoint endpoint() const;
  // The next request or news of a peer, in the order of coming; nothing by the deadline. From any
  // number of threads. Throws Aborted.
  std::optional<MessageEvent> receive(Deadline deadline);

  // Answers a request; replies of higher priority go first. A client that has gone is not missed.
  void reply(const MessageEvent& request, Payload payload, int priority = 0);
  // The client's request throws RequestFailed with this text.
  void fail(const MessageEvent& request, const std::string& text);

  // Memory for a part of a reply to this peer, as MessageClient::allocate.
  MessageBuffer allocate(std::uint64_t peer, std::size_t bytes);

  // Requests of another generation are refused from now on.
  void set_generation(std::uint64_t generation);
  std::uint64_t generation() const;
  std::vector<MessagePeer> peers() const;
  // Closes a peer's connection, as if it were lost.
  void drop(std::uint64_t peer);

  // Who was turned away.
  RefusalLog& refusals();

  // Every receive(), now and later, throws Aborted.
  void abort(const std::string& reason);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::comm
