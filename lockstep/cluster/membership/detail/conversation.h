// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lockstep/cluster/membership/detail/messages.h"
#include "lockstep/cluster/membership/rendezvous.h"
#include "lockstep/comm/messages/message_client.h"

namespace lockstep::cluster::detail {

inline constexpr auto kWholeJob = std::chrono::hours(10 * 365 * 24);  // as long as any

// The connection to the coordinator is gone, and it has not said why.
class CoordinatorGone final : public comm::CommError {
 public:
  using CommError::CommError;
  const char* kind() const noexcept override { return "PeerLost"; }  // to whoever is told
};

// What is asked of one coordinator, and answered. From any thread. Every call throws
// CoordinatorGone.
class Conversation {
 public:
  // Throws Timeout, Refused, Corrupt, NotFound.
  explicit Conversation(const RendezvousOptions& options);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  std::string address() const { return client_->local().host; }
  const comm::Endpoint& coordinator() const { return coordinator_; }
  bool is_connected() const { return client_->is_connected(); }
  // Whatever is unanswered ends.
  void abort(const std::string& why) { client_->abort(why); }

  // Without it the coordinator, and with it the others, hear that this member was lost.
  void leave() { leaves_ = true; }

  // Waits until it is heard, since this side may end at once.
  void tell(const Message& message, std::chrono::milliseconds timeout);

  // Throws what the coordinator has to say instead, now or since it was asked last.
  template <class T>
  T ask(const Message& message, std::chrono::milliseconds timeout, const std::string& what) {
    const Message answer = ask_any(message, timeout, what);
    if (const auto* wanted = std::get_if<T>(&answer)) return *wanted;
    raise_out_of_turn();
  }
  Message ask_any(const Message& message, std::chrono::milliseconds timeout,
                  const std::string& what);

  // The answer to the report before this one, if it has come.
  std::optional<Message> tell_activity(const std::string& text);
  // What is asked in each generation, and again when it was answered.
  std::optional<Change> poll_change(std::int64_t generation);
  // Whether the answer to what is asked once has come.
  bool have_workers_left();
  // Whether it has said why the job is over for this one. Throws it.
  void raise_failure();
  [[noreturn]] void raise_out_of_turn() const;

 private:
  comm::PendingReply request(const Message& message, std::chrono::milliseconds timeout);
  comm::Payload await(comm::PendingReply reply, std::chrono::milliseconds timeout,
                      const std::string& what) const;
  Message read(const comm::Payload& payload) const;

  comm::Endpoint coordinator_;
  Role role_;
  std::unique_ptr<comm::MessageClient> client_;
  std::mutex mutex_;                           // of what follows
  std::optional<comm::PendingReply> failure_;  // the answer to our greeting
  std::optional<comm::Payload> said_ = {};     // once it has come
  std::optional<comm::PendingReply> leave_ = {};
  std::optional<comm::PendingReply> activity_ = {};
  std::optional<comm::PendingReply> change_ = {};
  std::int64_t asked_in_ = -1;  // the generation that it is of
  bool have_workers_left_ = false;
  bool leaves_ = false;
};

[[noreturn]] void raise(const Denied& denied, Role own);

}  // namespace lockstep::cluster::detail
