// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/batched_answers.h"

#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/servers/table_messages.h"

namespace lockstep::kvstore {
namespace {

// The number of a request in a batch: this bit, the batch's number, and its place.
constexpr std::uint64_t kInBatch = std::uint64_t{1} << 63;
constexpr int kPlaceBits = 10;
static_assert(wire::kMostInBatch <= std::size_t{1} << kPlaceBits);
// A batch whose requests came again, and are answered there, has no answer of its own.
constexpr std::size_t kMostOpen = 4096;

std::uint64_t batch_of(const comm::MessageEvent& request) {
  return (request.request & ~kInBatch) >> kPlaceBits;
}
std::size_t place_of(const comm::MessageEvent& request) {
  return request.request & ((std::uint64_t{1} << kPlaceBits) - 1);
}

bool may_be_in(wire::Topic batch, wire::Topic item) {
  const bool reads = item == wire::Topic::pull || item == wire::Topic::pull_rows;
  const bool pushes = item == wire::Topic::push || item == wire::Topic::push_rows;
  return reads || (pushes && batch == wire::Topic::batch);
}

// Throws Corrupt.
void check_batch(const comm::MessageEvent& event, const wire::Batch& batch) {
  if (batch.items.empty() || batch.items.size() > wire::kMostInBatch)
    throw Corrupt("message: a batch of {} requests", batch.items.size());
  std::uint64_t floats = 0;
  for (const wire::BatchItem& item : batch.items) {
    if (!may_be_in(wire::to_subject(event.topic).topic, static_cast<wire::Topic>(item.topic)))
      throw Corrupt("message: a request of kind {} in a batch", item.topic);
    if (item.floats > wire::kLongestInBatch / sizeof(float))
      throw Corrupt("message: {} floats in a batch", item.floats);
    floats += item.floats;
  }
  if (floats > 0) check_floats(event.payload, 1, floats);
  check_parts(event.payload, floats > 0 ? 2 : 1);
}

}  // namespace

bool BatchedAnswers::is_single(const comm::MessageEvent& event) {
  return (event.request & kInBatch) == 0;
}

std::vector<comm::MessageEvent> BatchedAnswers::open(const comm::MessageEvent& event) {
  if (event.payload.parts() == 0) throw Corrupt("message: it is empty");
  const auto batch = wire::decode<wire::Batch>(event.payload.text(0));
  const wire::Subject subject = wire::to_subject(event.topic);
  check_batch(event, batch);
  const std::uint64_t number = next_++;
  std::vector<comm::MessageEvent> requests;
  std::size_t begin = 0;
  for (const wire::BatchItem& item : batch.items) {
    comm::MessageEvent& one = requests.emplace_back(without_payload(event));
    one.request = kInBatch | number << kPlaceBits | (requests.size() - 1);
    one.topic = wire::to_number(
        {static_cast<wire::Topic>(item.topic), subject.is_forwarded, subject.range});
    one.payload.add(item.message);
    if (item.floats > 0)
      add_slice(one.payload, event.payload, begin, item.floats);
    else if (!wire::only_reads(static_cast<wire::Topic>(item.topic)))
      one.payload.add(std::span<const std::byte>(), nullptr);
    begin += item.floats;
  }
  while (open_.size() >= kMostOpen) open_.erase(open_.begin());
  Open& open = open_[number];
  open.request = without_payload(event);
  open.missing = requests.size();
  open.answer.outcomes.resize(requests.size());
  open.payloads.resize(requests.size());
  open.is_answered.resize(requests.size());
  return requests;
}

BatchedAnswers::Open* BatchedAnswers::find(const comm::MessageEvent& request) {
  const auto found = open_.find(batch_of(request));
  if (found == open_.end() || place_of(request) >= found->second.is_answered.size()) return nullptr;
  return found->second.is_answered[place_of(request)] ? nullptr : &found->second;
}

void BatchedAnswers::reply(const comm::MessageEvent& request, comm::Payload payload, int priority) {
  if (is_single(request)) return answers_.reply(request, std::move(payload), priority);
  Open* open = find(request);
  if (open == nullptr) return;
  wire::Outcome outcome;
  if (payload.parts() > 0) outcome.message = payload.text(0);
  if (payload.parts() > 1) outcome.floats = payload.size(1) / sizeof(float);
  end(request, *open, std::move(outcome), std::move(payload));
}

void BatchedAnswers::fail(const comm::MessageEvent& request, const std::string& why) {
  if (is_single(request)) return answers_.fail(request, why);
  if (Open* open = find(request)) end(request, *open, {.failed = true, .message = why}, {});
}

void BatchedAnswers::end(const comm::MessageEvent& request, Open& open, wire::Outcome outcome,
                         comm::Payload payload) {
  const std::size_t place = place_of(request);
  open.answer.outcomes[place] = std::move(outcome);
  open.payloads[place] = std::move(payload);
  open.is_answered[place] = true;
  if (--open.missing > 0) return;
  std::size_t floats = 0;
  for (const wire::Outcome& one : open.answer.outcomes) floats += one.floats;
  const comm::MessageEvent asked = open.request;
  const comm::MessageBuffer all = answers_.allocate(asked, floats * sizeof(float));
  std::span<std::byte> rest = all.bytes;
  for (std::size_t i = 0; i < open.payloads.size(); ++i) {
    const std::size_t bytes = open.answer.outcomes[i].floats * sizeof(float);
    if (bytes > 0) open.payloads[i].copy_to(1, rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  comm::Payload whole(wire::encode(open.answer));
  if (floats > 0) whole.add(all);
  open_.erase(batch_of(request));
  answers_.reply(asked, std::move(whole), 0);
}

}  // namespace lockstep::kvstore
