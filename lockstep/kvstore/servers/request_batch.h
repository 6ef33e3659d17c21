// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>

#include "lockstep/kvstore/servers/batch_messages.h"
#include "lockstep/kvstore/servers/connections.h"

namespace lockstep::kvstore {

// The answer to a request that went by itself or with others.
class PendingAnswer {
 public:
  PendingAnswer(ServerReply reply) : reply_(std::move(reply)) {}

  // As ServerReply; false of one that went with others.
  bool is_done() { return reply_ && reply_->is_done(); }
  // As ServerReply. Once.
  comm::Payload wait(const std::function<void()>& check = {});

 private:
  friend class RequestBatches;
  class Shared;
  PendingAnswer(std::shared_ptr<Shared> shared, std::size_t place)
      : shared_(std::move(shared)), place_(place) {}

  std::optional<ServerReply> reply_;
  std::shared_ptr<Shared> shared_;
  std::size_t place_ = 0;
};

// Short requests that are made together: one message for each server.
class RequestBatches {
 public:
  RequestBatches(ServerConnections& servers, wire::Topic topic, std::string what)
      : servers_(servers), topic_(topic), what_(std::move(what)) {}

  static bool takes(std::size_t floats) { return floats * sizeof(float) <= wire::kLongestInBatch; }
  // `pending` is called when it has gone, with what it will be answered by.
  template <class Message>
  void add(int range, wire::Topic topic, const Message& message, const std::string& what,
           std::span<const float> floats, std::function<void(PendingAnswer)> pending) {
    add_encoded(range, topic, wire::encode(message), what, floats, std::move(pending));
  }
  void send();

 private:
  void add_encoded(int range, wire::Topic topic, std::string message, const std::string& what,
                   std::span<const float> floats, std::function<void(PendingAnswer)> pending);

  struct Batch {
    wire::Batch items = {};
    std::vector<std::string> whats = {};
    std::vector<float> floats = {};
    std::vector<std::function<void(PendingAnswer)>> pending = {};
  };
  void send(int range, Batch& batch);

  ServerConnections& servers_;
  wire::Topic topic_;
  std::string what_;
  std::map<int, Batch> batches_;  // by range
};

}  // namespace lockstep::kvstore
