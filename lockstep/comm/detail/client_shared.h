// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>

#include "lockstep/comm/detail/send_queue.h"
#include "lockstep/comm/messages/message_client.h"

// What a client and the requests that it has under way have in common: they may outlive it.
namespace lockstep::comm::detail {

// A client, for those who wait for an answer of its server: see WireTurn.
class FrameMover {
 public:
  // Whether there is a connection, and nobody's turn.
  virtual bool can_move() const = 0;
  // Takes the turn until that, or `is_done`, or the connection is lost.
  virtual void move_until(std::unique_lock<std::mutex>& lock, Deadline until,
                          const std::function<bool()>& is_done) = 0;
  // Takes what has come.
  virtual void look() = 0;

 protected:
  ~FrameMover() = default;
};

struct PendingRequest {
  std::uint64_t number = 0;
  RequestOptions options = {};
  std::uint64_t generation = 0;
  Payload payload = {};  // until it is answered, in case that it is sent again
  Deadline begin = {}, deadline = {};
  SendQueue::Place place = {};
  bool is_done = false;
  Reply reply = {};
  std::exception_ptr error = nullptr;
};

struct ClientShared {
  explicit ClientShared(const MessageClientOptions& options)
      : host(options.server.host), at(to_string(options.server)), meter(options.meter) {}

  std::exception_ptr timeout_of(const PendingRequest& one) const;
  std::exception_ptr lost_error(const std::string& what) const;
  std::exception_ptr aborted_error(const std::string& what) const;
  bool can_move() const { return mover != nullptr && mover->can_move(); }
  // Until that, or `is_done`: as the one who moves frames, if nobody else does.
  void await(std::unique_lock<std::mutex>& lock, Deadline until,
             const std::function<bool()>& is_done);

  const std::string host, at;
  const std::shared_ptr<Meter> meter;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> aborted;  // guarded by the mutex, as all below
  std::string trouble;                 // why there is no connection now
  bool is_connected = true;
  FrameMover* mover = nullptr;  // while the client lives
  int waiting = 0;              // threads in await()
};

}  // namespace lockstep::comm::detail
