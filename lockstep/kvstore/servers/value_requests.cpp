// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/value_requests.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/servers/floats.h"
#include "lockstep/kvstore/store_checks.h"

namespace lockstep::kvstore {

using wire::Topic;

void ValueRequests::set_compression(const Compression& compression) {
  codec_ = make_codec(compression);  // or InvalidArgument
  compression_ = compression;
}

wire::Clock ValueRequests::clock_of(const Key& key, const Place& its) const {
  return {store_, key.str(), worker_, its.clock, pace_.bound};
}

wire::Clock ValueRequests::next_clock(const Key& key, const Place& its) const {
  wire::Clock clock = clock_of(key, its);
  ++clock.count;
  return clock;
}

wire::Push ValueRequests::push_of(const Key& key, const Place& its) const {
  return {.clock = next_clock(key, its),
          .in_step = pace_.in_step,
          .seen = its.version,
          .compression = to_string(compression_)};
}

// How the floats of a place are cut, where each worker has them in step.
Parts ValueRequests::cut(std::size_t count) const {
  return pace_.in_step ? parts_of(count) : Parts{{0, count}};
}

void ValueRequests::init(const Key& key, const PlacedValue& value, const Tensor& data) {
  for (const Place& its : value.places) {
    const auto [begin, count] = value.floats_at(its);
    comm::Payload payload;
    add_floats(payload, floats(data).subspan(begin, count), std::make_shared<Tensor>(data));
    servers_.ask(its.range.server, Topic::init_key,
                 wire::InitKey{store_, key.str(), its.range.rows, value.width},
                 "init of key " + key.str(), payload);
  }
}

template <class Message>
void ValueRequests::send_push(Place& its, Topic topic, const Message& request,
                              const std::string& what, const comm::Payload& payload) {
  its.pushes.emplace_back(servers_.request(its.range.server, topic, request, what, payload));
  ++its.clock;
}

// While the server is busy with a part, the next one is copied to where it will read it. `sent`
// gets each answer that will come, and which of the value's floats it is about.
template <class Sent>
void ValueRequests::send_floats(const Key& key, const PlacedValue& value, Place& its,
                                const std::vector<Tensor>& tensors, wire::Push request,
                                const Sent& sent) {
  const auto [begin, all] = value.floats_at(its);
  const auto parts = cut(all);
  for (const auto& [offset, count] : parts) {
    if (parts.size() > 1) {
      request.offset = offset;
      request.count = count;
    }
    comm::Payload payload;
    for (const Tensor& tensor : tensors) {
      const comm::MessageBuffer buffer = servers_.allocate(its.range.server, count * sizeof(float));
      const std::span<const float> own = floats(tensor).subspan(begin + offset, count);
      if (count > 0) std::memcpy(buffer.bytes.data(), own.data(), own.size_bytes());
      payload.add(buffer);
    }
    sent(servers_.request(its.range.server, Topic::push, request, "push of key " + key.str(),
                          payload),
         begin + offset, count);
  }
  ++its.clock;
}

void ValueRequests::push(const Key& key, PlacedValue& value, const std::vector<Tensor>& tensors) {
  if (is_compressed()) return send_code(key, value, sum_of(tensors));
  for (Place& its : value.places)
    send_floats(key, value, its, tensors, push_of(key, its),
                [&](PendingAnswer answer, std::size_t, std::size_t) {
                  its.pushes.push_back(std::move(answer));
                });
}

void ValueRequests::push_small(const Key& key, PlacedValue& value, const Tensor& tensor,
                               RequestBatches& batches) {
  Place& its = value.places[0];
  batches.add(its.range.server, Topic::push, push_of(key, its), "push of key " + key.str(),
              floats(tensor), [&its](PendingAnswer answer) {
                its.pushes.push_back(std::move(answer));
                ++its.clock;
              });
}

void ValueRequests::send_code(const Key& key, PlacedValue& value, const Tensor& sum) {
  for (Place& its : value.places) {
    const auto [begin, count] = value.floats_at(its);
    comm::Payload payload;
    payload.add(code_of(value, sum, begin, count));
    send_push(its, Topic::push, push_of(key, its), "push of key " + key.str(), payload);
  }
}

std::vector<std::byte> ValueRequests::code_of(PlacedValue& value, const Tensor& sum,
                                              std::size_t begin, std::size_t count) const {
  std::span<float> kept;
  if (codec_->keeps_residual()) {
    value.residual.resize(value.rows * value.width);
    kept = std::span(value.residual).subspan(begin, count);
  }
  std::vector<std::byte> code(codec_->payload_bytes(count));
  codec_->encode(floats(sum).subspan(begin, count), kept, code);
  return code;
}

void ValueRequests::push_rows(const Key& key, PlacedValue& value,
                              const std::vector<std::int64_t>& ids, const Tensor& rows) {
  for (Place& its : value.places) {
    wire::PushRows request{
        .clock = next_clock(key, its), .in_step = pace_.in_step, .seen = its.version};
    const auto part = std::make_shared<std::vector<float>>();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto local = local_row(its, ids[i]);
      if (!local) continue;
      request.rows.push_back(*local);
      const auto row = floats(rows).subspan(i * value.width, value.width);
      part->insert(part->end(), row.begin(), row.end());
    }
    comm::Payload payload;
    add_floats(payload, *part, part);
    send_push(its, Topic::push_rows, request, "row_sparse_push of key " + key.str(), payload);
  }
}

// A push that the server refused did not count. All are waited for before the first error is
// thrown.
void ValueRequests::wait_for_push(PlacedValue& value) {
  std::exception_ptr error;
  for (Place& its : value.places) {
    wire::Pushed pushed;
    bool is_done = !its.pushes.empty(), is_refused = false;
    for (PendingAnswer& answer : std::exchange(its.pushes, {})) try {
        pushed = message_in<wire::Pushed>(answer.wait());
      } catch (const Error& failure) {
        is_done = false;
        is_refused |= dynamic_cast<const comm::RequestFailed*>(&failure) != nullptr;
        if (!error) error = std::current_exception();
      }
    if (is_refused) --its.clock, value.prefetched.reset();
    if (is_done) note_pushed(pushed);
  }
  if (error) std::rethrow_exception(error);
}

void ValueRequests::ask_for(const Key& key, PlacedValue& value, std::vector<Pulling>& pulls) {
  for (Place& its : value.places) {
    const std::size_t begin = its.range.row * value.width;
    wire::Pull request{clock_of(key, its)};
    const auto parts = cut(value.floats_at(its).second);
    for (const auto& [offset, count] : parts) {
      if (parts.size() > 1) {
        request.offset = offset;
        request.count = count;
      }
      pulls.push_back(
          {&its, begin + offset, count,
           servers_.request(its.range.server, Topic::pull, request, "pull of key " + key.str())});
    }
  }
}

void ValueRequests::ask_for_small(const Key& key, PlacedValue& value, RequestBatches& batches,
                                  std::vector<Pulling>& pulls) {
  Place& its = value.places[0];
  batches.add(its.range.server, Topic::pull, wire::Pull{clock_of(key, its)},
              "pull of key " + key.str(), {}, [&](PendingAnswer answer) {
                pulls.push_back({&value.places[0], 0, value.floats(), std::move(answer)});
              });
}

// The next parts come while one is copied.
Tensor ValueRequests::take(const PlacedValue& value, std::vector<Pulling>& pulls) {
  const Tensor data = Tensor::empty(value.info.shape);
  for (Pulling& one : pulls) {
    const comm::Payload reply = one.answer.wait();
    note_pulled(*one.place, message_in<wire::Pulled>(reply));
    if (one.count > 0) copy_floats(reply, 1, floats(data).subspan(one.begin, one.count));
  }
  return value.as_given(data);
}

void ValueRequests::start(const Key& key, const std::vector<Tensor>& tensors, PushPulling& one,
                          RequestBatches& batches) {
  for (Place& its : one.value->places) {
    wire::Push request = push_of(key, its);
    request.pulls = true;
    if (one.value->is_small() && tensors.size() == 1) {
      batches.add(its.range.server, Topic::push, request, "push of key " + key.str(),
                  floats(tensors[0]), [&one, &its](PendingAnswer answer) {
                    one.parts.push_back({&its, 0, one.value->floats(), std::move(answer)});
                    ++its.clock;
                  });
      continue;
    }
    send_floats(key, *one.value, its, tensors, request,
                [&](PendingAnswer answer, std::size_t begin, std::size_t count) {
                  one.parts.push_back({&its, begin, count, std::move(answer)});
                  while (take_next(one, true)) {
                  }
                });
  }
}

// False where there is none, or it has not come and is not waited for.
bool ValueRequests::take_next(PushPulling& one, bool only_if_done) {
  if (one.taken == one.parts.size()) return false;
  Pulling& part = one.parts[one.taken];
  try {
    if (only_if_done && !part.answer.is_done()) return false;
    const comm::Payload reply = part.answer.wait([&] { one.send_lost_again(); });
    note_pulled(*part.place, message_in<wire::PushPulled>(reply).pulled);
    if (part.count > 0) copy_floats(reply, 1, floats(one.data).subspan(part.begin, part.count));
  } catch (const Error& failure) {
    if (dynamic_cast<const comm::RequestFailed*>(&failure) != nullptr)
      one.refused.insert(part.place);
    if (!one.error) one.error = std::current_exception();
  }
  ++one.taken;
  return true;
}

// As wait_for_push.
void ValueRequests::finish(PushPulling& one) {
  while (take_next(one, false)) {
  }
  for (Place* its : one.refused) --its->clock, one.value->prefetched.reset();
  if (!one.error)
    for (std::size_t i = 0; i < one.value->places.size(); ++i) note_pushed({});
}

AskedRows ValueRequests::ask_for_rows(const char* what, const Key& key, PlacedValue& value,
                                      const std::vector<std::int64_t>& ids) {
  if (!pace_.in_step) wait_for_push(value);
  AskedRows asked{ids, value.places[0].clock};
  for (Place& its : value.places) {
    wire::PullRows request{.clock = clock_of(key, its)};
    for (const std::int64_t id : ids)
      if (const auto local = local_row(its, id)) request.rows.push_back(*local);
    if (!request.rows.empty())
      asked.replies.emplace_back(&its,
                                 servers_.request(its.range.server, Topic::pull_rows, request,
                                                  fmt::format("{} of key {}", what, key.str())));
  }
  return asked;
}

RowSparse ValueRequests::take_rows(const Key& key, const PlacedValue& value, AskedRows& asked) {
  RowSparse result{std::move(asked.ids), {}};
  const Tensor rows =
      Tensor::empty(rows_shape(value.info.shape, static_cast<std::int64_t>(result.ids.size())));
  std::span<float> rest = floats(rows);
  for (auto& [its, pending] : asked.replies) {
    const comm::Payload reply = pending.wait().payload;
    note_pulled(*its, message_in<wire::Pulled>(reply));
    if (reply.parts() != 2 || reply.size(1) > rest.size_bytes())
      throw Corrupt("row_sparse_pull: key {}: an answer that is no rows", key.str());
    const std::size_t count = reply.size(1) / sizeof(float);
    copy_floats(reply, 1, rest.first(count));
    rest = rest.subspan(count);
  }
  result.rows = value.as_given(rows);
  return result;
}

void ValueRequests::note_pushed(const wire::Pushed& pushed) {
  ++staleness_.pushes;
  staleness_.total += pushed.staleness;
  staleness_.most = std::max(staleness_.most, pushed.staleness);
}

void ValueRequests::note_pulled(Place& its, const wire::Pulled& pulled) {
  its.version = pulled.version;
  if (its.clock > pulled.slowest)
    staleness_.most_ahead = std::max(staleness_.most_ahead, its.clock - pulled.slowest);
}

OptimizerStates::OfKey ValueRequests::read_state(const Key& key, const PlacedValue& value) {
  OptimizerStates::OfKey whole;
  for (const Place& its : value.places) {
    const comm::Payload reply =
        servers_.ask(its.range.server, Topic::read_state, wire::KeyState{store_, key.str()},
                     "save_optimizer_states of key " + key.str());
    whole.steps = message_in<wire::KeyState>(reply).steps;
    whole.slots.resize(reply.parts() - 1);
    const auto [begin, count] = value.floats_at(its);
    for (std::size_t k = 0; k < whole.slots.size(); ++k) {
      whole.slots[k].resize(value.rows * value.width);
      copy_floats(reply, k + 1, std::span(whole.slots[k]).subspan(begin, count));
    }
  }
  return whole;
}

void ValueRequests::write_state(const std::string& key, const PlacedValue& value,
                                const OptimizerStates::OfKey& state) {
  for (const Place& its : value.places) {
    const auto [begin, count] = value.floats_at(its);
    comm::Payload payload;
    for (const std::vector<float>& slot : state.slots)
      add_copy(payload, std::span(slot).subspan(begin, count));
    servers_.ask(its.range.server, Topic::write_state, wire::KeyState{store_, key, state.steps},
                 "load_optimizer_states of key " + key, payload);
  }
}

}  // namespace lockstep::kvstore
