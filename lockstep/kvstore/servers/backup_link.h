// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/comm/messages/message_client.h"
#include "lockstep/kvstore/servers/answers.h"

namespace lockstep::kvstore {

// An answer that has not gone yet.
struct HeldAnswer {
  comm::MessageEvent request;
  comm::Payload payload = {};
  int priority = 0;
  std::optional<std::string> failure = {};

  void go(Answers& answers) const;
};

// Keeps answers instead of sending them.
class AnswerKeeper final : public Answers {
 public:
  // Where they will go.
  explicit AnswerKeeper(Answers& answers) : answers_(answers) {}

  void reply(const comm::MessageEvent& request, comm::Payload payload, int priority) override {
    kept_.push_back({without_payload(request), std::move(payload), priority});
  }
  void fail(const comm::MessageEvent& request, const std::string& why) override {
    kept_.push_back({without_payload(request), {}, 0, why});
  }
  comm::MessageBuffer allocate(const comm::MessageEvent& request, std::size_t bytes) override {
    return answers_.allocate(request, bytes);
  }
  std::vector<HeldAnswer> take() { return std::exchange(kept_, {}); }

 private:
  Answers& answers_;
  std::vector<HeldAnswer> kept_;
};

// From the primary of a range to its backup, which does whatever the primary does, in the same
// order. Answers go when the backup has done what they follow from.
class BackupLink {
 public:
  // Connects. Throws as comm::MessageClient does.
  BackupLink(int server, const comm::MessageClientOptions& options, Answers& answers);
  ~BackupLink();

  int server() const { return server_; }
  // Whether answers wait for it: not before the backup has everything that was there before.
  bool holds_answers = false;

  // The backup has done so many requests.
  std::uint64_t done() const { return done_; }
  // It is lost, or is no backup any more: whatever waits stays.
  bool is_broken() const { return is_broken_; }

  void forward(std::uint32_t topic, const comm::Payload& payload,
               std::chrono::milliseconds timeout);
  // They follow from all that was forwarded so far.
  void hold(std::vector<HeldAnswer> answers);
  // What waits, of a link that is broken.
  std::vector<HeldAnswer> take_held();

 private:
  struct Item {
    std::optional<comm::PendingReply> reply;
    std::vector<HeldAnswer> answers;
  };
  void put(Item item);
  void run(const std::stop_token& stop);

  int server_;
  Answers& answers_;
  std::atomic<bool> is_broken_ = false;
  std::atomic<std::uint64_t> done_ = 0;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Item> items_;  // guarded by the mutex
  comm::MessageClient client_;
  std::jthread thread_;
};

}  // namespace lockstep::kvstore
