// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "lockstep/kvstore/servers/answers.h"
#include "lockstep/kvstore/servers/batch_messages.h"

namespace lockstep::kvstore {

// Answers the requests of a batch together, when the last of them has its answer; others at once.
class BatchedAnswers final : public Answers {
 public:
  explicit BatchedAnswers(Answers& answers) : answers_(answers) {}

  // The requests of a batch. Throws Corrupt.
  std::vector<comm::MessageEvent> open(const comm::MessageEvent& event);
  // Whether it can be a request that came by itself.
  static bool is_single(const comm::MessageEvent& event);

  void reply(const comm::MessageEvent& request, comm::Payload payload, int priority) override;
  void fail(const comm::MessageEvent& request, const std::string& why) override;
  comm::MessageBuffer allocate(const comm::MessageEvent& request, std::size_t bytes) override {
    return is_single(request) ? answers_.allocate(request, bytes) : comm::allocate_buffer(bytes);
  }

 private:
  struct Open {
    comm::MessageEvent request;
    wire::BatchAnswer answer = {};
    std::vector<comm::Payload> payloads = {};
    std::vector<bool> is_answered = {};
    std::size_t missing = 0;
  };
  // Null where the batch has been answered, or nobody remembers it.
  Open* find(const comm::MessageEvent& request);
  void end(const comm::MessageEvent& request, Open& open, wire::Outcome outcome,
           comm::Payload payload);

  Answers& answers_;
  std::map<std::uint64_t, Open> open_;  // by number
  std::uint64_t next_ = 0;
};

}  // namespace lockstep::kvstore
