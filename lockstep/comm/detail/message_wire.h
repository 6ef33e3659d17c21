// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/comm/detail/message_frame.h"
#include "lockstep/comm/detail/message_memory.h"
#include "lockstep/comm/messages/message_client.h"
#include "lockstep/comm/messages/message_server.h"

namespace lockstep::comm::detail {

// Ends the sleep of whoever polls its descriptor; from any thread.
class Waker {
 public:
  Waker();
  void wake() const;
  // Until the next wake().
  void clear() const;
  int fd() const { return event_.fd(); }

 private:
  Socket event_;
};

struct WireEvent {
  // A link is a connection that has proved the secret. A client has one, number 0, from the start.
  enum class Kind { opened, frame, left, lost, silent, heard };
  Kind kind = Kind::frame;
  std::uint64_t link = 0;
  MessagePeer peer = {};    // of opened
  bool reconnects = true;   // of opened: it may come again, and ask again
  std::string reason = {};  // of lost and silent
  Frame frame = {};
};

// How frames travel between a server and its clients. One thread at a time uses it (WireTurn).
class MessageWire {
 public:
  virtual ~MessageWire() = default;
  // What has happened; never waits. Frames only when they are wanted.
  virtual std::optional<WireEvent> next(bool wants_frames) = 0;
  // False when there is no room on the link now. A link that is gone takes everything.
  virtual bool send(std::uint64_t link, const Frame& frame) = 0;
  // The same, also from another thread while this one sleeps, but not while it does anything else.
  // False where the link has no such way.
  virtual bool send_now(std::uint64_t /*link*/, const Frame& /*frame*/) { return false; }
  // Whether some of a frame that was taken is still to be sent: when there is room, by next().
  virtual bool has_rest() const { return false; }
  // What the link's other end sees too; null where it sees nothing. From any thread, as send_now.
  virtual std::shared_ptr<MessageMemory> memory(std::uint64_t /*link*/) const { return nullptr; }
  virtual void close(std::uint64_t link) = 0;
  // Until next() has something, the waker is woken or there may be room for frames of
  // `blocked` links.
  virtual void sleep(Deadline until, bool wants_frames, bool is_blocked) = 0;

  // A client's last word: without it the server takes it for lost.
  virtual void say_goodbye() {}

  virtual Endpoint endpoint() const = 0;  // the server's
  virtual Endpoint local() const = 0;     // this side's
  // A server's; from any thread.
  virtual RefusalLog* refusals() { return nullptr; }
};

// Over ZeroMQ. The waker outlives the wire.
std::unique_ptr<MessageWire> listen_by_zmq(const MessageServerOptions& options, const Waker& waker);
// `id` is how the server will know the client. Throws Refused, Corrupt, Timeout.
std::unique_ptr<MessageWire> connect_by_zmq(const MessageClientOptions& options, std::uint64_t id,
                                            const Waker& waker, Deadline deadline);

// Inside this process: options.hub is where.
std::unique_ptr<MessageWire> listen_in_memory(const MessageServerOptions& options,
                                              const Waker& waker);
std::unique_ptr<MessageWire> connect_in_memory(const MessageClientOptions& options,
                                               std::uint64_t id, const Waker& waker,
                                               Deadline deadline);

}  // namespace lockstep::comm::detail
