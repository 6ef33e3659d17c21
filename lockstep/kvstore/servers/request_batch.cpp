// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/request_batch.h"

#include <algorithm>

#include "lockstep/comm/errors.h"
#include "lockstep/kvstore/servers/batch_messages.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/parameter_server.h"

namespace lockstep::kvstore {

// The answers to all requests of a batch: waited for by the first who wants one of them.
class PendingAnswer::Shared {
 public:
  Shared(ServerReply reply, int range, std::vector<std::string> whats)
      : reply_(std::move(reply)), range_(range), whats_(std::move(whats)) {}

  comm::Payload wait(std::size_t place) {
    if (!std::exchange(has_come_, true)) receive();
    if (error_) std::rethrow_exception(error_);
    const wire::Outcome& outcome = answer_.outcomes[place];
    if (outcome.failed)
      throw comm::RequestFailed(fmt::format("{} at {}: {}: {}", whats_[place], server_name(range_),
                                            server_name(range_), outcome.message),
                                range_, "", whats_[place]);
    comm::Payload payload(outcome.message);
    if (outcome.floats > 0) add_slice(payload, payload_, begins_[place], outcome.floats);
    return payload;
  }

 private:
  void receive() {
    try {
      payload_ = reply_.wait().payload;
      answer_ = message_in<wire::BatchAnswer>(payload_);
      std::size_t floats = 0;
      for (const wire::Outcome& outcome : answer_.outcomes) {
        begins_.push_back(floats);
        floats += outcome.floats;
      }
      if (answer_.outcomes.size() != whats_.size())
        throw Corrupt("message: {} answers to {} requests", answer_.outcomes.size(), whats_.size());
      if (floats > 0) check_floats(payload_, 1, floats);
    } catch (const Error&) {
      error_ = std::current_exception();
    }
  }

  ServerReply reply_;
  int range_;
  std::vector<std::string> whats_;
  bool has_come_ = false;
  std::exception_ptr error_;
  comm::Payload payload_;
  wire::BatchAnswer answer_;
  std::vector<std::size_t> begins_;
};

comm::Payload PendingAnswer::wait(const std::function<void()>& check) {
  return reply_ ? reply_->wait(check).payload : shared_->wait(place_);
}

void RequestBatches::add_encoded(int range, wire::Topic topic, std::string message,
                                 const std::string& what, std::span<const float> floats,
                                 std::function<void(PendingAnswer)> pending) {
  Batch& batch = batches_[range];
  batch.items.items.push_back(
      {static_cast<std::uint32_t>(topic), std::move(message), floats.size()});
  batch.whats.push_back(what);
  batch.floats.insert(batch.floats.end(), floats.begin(), floats.end());
  batch.pending.push_back(std::move(pending));
  if (batch.whats.size() == wire::kMostInBatch) send(range, batch);
}

void RequestBatches::send() {
  for (auto& [range, batch] : batches_)
    if (!batch.whats.empty()) send(range, batch);
}

void RequestBatches::send(int range, Batch& batch) {
  const Batch sent = std::exchange(batch, {});
  comm::Payload payload;
  if (!sent.floats.empty()) {
    const comm::MessageBuffer buffer = servers_.allocate(range, sent.floats.size() * sizeof(float));
    std::ranges::copy(std::as_bytes(std::span(sent.floats)), buffer.bytes.begin());
    payload.add(buffer);
  }
  ServerReply reply = servers_.request(
      range, topic_, sent.items, fmt::format("{} of {} keys", what_, sent.whats.size()), payload);
  const auto shared = std::make_shared<PendingAnswer::Shared>(std::move(reply), range, sent.whats);
  for (std::size_t place = 0; place < sent.pending.size(); ++place)
    sent.pending[place](PendingAnswer(shared, place));
}

}  // namespace lockstep::kvstore
