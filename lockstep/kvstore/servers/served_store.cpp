// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/served_store.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/servers/floats.h"

namespace lockstep::kvstore {
namespace {

template <class Message>
Message message_of(const comm::MessageEvent& event) {
  return wire::decode<Message>(event.payload.text(0));
}

void check_rows(const std::string& key, const ServedValue& value,
                const std::vector<std::uint64_t>& ids) {
  for (const std::uint64_t id : ids)
    if (id >= value.rows())
      throw InvalidArgument("key {}: there is no row {}, {} are here", key, id, value.rows());
}

double floats_of(const wire::InitKey& request) {
  return static_cast<double>(request.rows) * static_cast<double>(request.width);
}

}  // namespace

void ServedStore::join(std::uint32_t worker) {
  if (worker >= workers_)
    throw InvalidArgument("worker {}, the job has {} of them", worker, workers_);
  present_.insert(worker);
  gone_.erase(worker);
}

bool ServedStore::leave(std::uint32_t worker, Answers& answers) {
  present_.erase(worker);
  gone_.insert(worker);
  for (auto& [key, entry] : entries_) try_again(entry, answers);
  return !present_.empty();
}

void ServedStore::lose(std::uint32_t worker, Answers& answers) {
  for (auto& [key, entry] : entries_) {
    if (entry.round.contains(worker)) continue;
    for (const auto& [other, push] : std::exchange(entry.round, {}))
      answers.fail(push.event, fmt::format("key {}: worker {} was lost", key, worker));
  }
}

std::size_t ServedStore::bytes() const {
  std::size_t floats = 0;
  for (const auto& [key, entry] : entries_) floats += entry.value.floats();
  const std::size_t slots = rule_.rule ? static_cast<std::size_t>(rule_.rule->slots()) : 0;
  return floats * sizeof(float) * (1 + slots);
}

std::size_t ServedStore::bytes_with(const wire::InitKey& request) const {
  const double slots = rule_.rule ? rule_.rule->slots() : 0;
  const double more = floats_of(request) * sizeof(float) * (1.0 + slots);
  return more < 1e18 ? bytes() + static_cast<std::size_t>(more) : std::size_t{1} << 60;
}

void ServedStore::init(const comm::MessageEvent& event, const wire::InitKey& request,
                       Answers& answers) {
  check_parts(event.payload, 2);
  if (floats_of(request) > 1e15)
    throw Corrupt("key {}: {} rows of {}", request.key, request.rows, request.width);
  check_floats(event.payload, 1, request.rows * request.width);
  const auto found = entries_.find(request.key);
  if (found != entries_.end()) {
    const ServedValue& value = found->second.value;
    if (value.rows() != request.rows || value.width() != request.width || !value.is(event.payload))
      throw InvalidArgument("init: key {} is there already, with another value", request.key);
  } else {
    entries_.emplace(request.key, Entry{ServedValue(request.rows, request.width, event.payload),
                                        std::vector<std::uint64_t>(workers_)});
  }
  answers.reply(event, {}, 0);
}

ServedStore::Entry& ServedStore::find(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end())
    throw NotFound("there is no key {} here, expected init() before", key);
  return found->second;
}

ServedStore::Entry& ServedStore::find(const wire::Clock& clock) {
  if (clock.worker >= workers_ || !present_.contains(clock.worker))
    throw InvalidArgument("key {}: worker {} takes no part in the store", clock.key, clock.worker);
  return find(clock.key);
}

std::uint64_t ServedStore::slowest(const Entry& entry) const {
  std::uint64_t least = wire::kNoBound;
  for (std::size_t worker = 0; worker < workers_; ++worker)
    if (!gone_.contains(static_cast<std::uint32_t>(worker)))
      least = std::min(least, entry.clocks[worker]);
  return least;
}

// Of a worker that has done so many steps.
bool ServedStore::must_wait(const Entry& entry, const wire::Clock& clock,
                            std::uint64_t done) const {
  const std::uint64_t least = slowest(entry);
  return least < done && done - least > clock.bound;
}

void ServedStore::push(const comm::MessageEvent& event, Answers& answers) {
  const auto request = message_of<wire::Push>(event);
  const Entry& entry = find(request.clock);
  const auto codec = make_codec(parse_compression(request.compression));
  const std::size_t values = event.payload.parts() - 1;
  if (values == 0 || (codec && values != 1))
    throw Corrupt("key {}: {} values", request.clock.key, values);
  for (std::size_t part = 1; part <= values; ++part)
    if (!codec)
      check_floats(event.payload, part, entry.value.floats());
    else if (event.payload.size(part) != codec->payload_bytes(entry.value.floats()))
      throw Corrupt("key {}: {} bytes of code, expected {}", request.clock.key,
                    event.payload.size(part), codec->payload_bytes(entry.value.floats()));
  take(event, request.clock, request.in_step, request.seen,
       {.event = event, .compression = request.compression, .values = values}, answers);
}

void ServedStore::push_rows(const comm::MessageEvent& event, Answers& answers) {
  auto request = message_of<wire::PushRows>(event);
  const Entry& entry = find(request.clock);
  check_rows(request.clock.key, entry.value, request.rows);
  check_parts(event.payload, 2);
  check_floats(event.payload, 1, request.rows.size() * entry.value.width());
  take(event, request.clock, request.in_step, request.seen,
       {.event = event, .has_rows = true, .values = 1, .rows = std::move(request.rows)}, answers);
}

void ServedStore::check_pushes_agree(const std::string& key, const Entry& entry,
                                     const Pushing& own) const {
  for (const auto& [worker, other] : entry.round)
    if (other.has_rows != own.has_rows || other.compression != own.compression)
      throw InvalidArgument("key {}: worker {} pushes {}{}, and not all do", key, worker,
                            other.has_rows ? "rows" : "whole values",
                            other.compression.empty() ? "" : " as " + other.compression);
}

// A push that was applied is answered again; the worker's next one is applied when its turn comes.
void ServedStore::take(const comm::MessageEvent& event, const wire::Clock& clock, bool in_step,
                       std::uint64_t seen, Pushing pushing, Answers& answers) {
  Entry& entry = find(clock);
  std::uint64_t& done = entry.clocks[clock.worker];
  if (clock.count <= done)
    return answers.reply(event, comm::Payload(wire::encode(wire::Pushed{})), 0);
  if (clock.count != done + 1)
    throw InvalidArgument("key {}: push {} of worker {}, expected {}", clock.key, clock.count,
                          clock.worker, done + 1);
  if (in_step) {
    check_pushes_agree(clock.key, entry, pushing);
    entry.round.insert_or_assign(clock.worker, std::move(pushing));
    if (entry.round.size() == workers_) finish_round(entry, answers);
    return;
  }
  if (must_wait(entry, clock, done)) return entry.waiting.push_back(event);
  const wire::Pushed pushed{entry.version > seen ? entry.version - seen : 0};
  apply(entry, {&pushing});
  ++done;
  ++entry.version;
  answers.reply(event, comm::Payload(wire::encode(pushed)), 0);
  try_again(entry, answers);
}

// Everybody's is here.
void ServedStore::finish_round(Entry& entry, Answers& answers) {
  std::vector<const Pushing*> pushes;
  for (const auto& [worker, one] : entry.round) pushes.push_back(&one);
  apply(entry, pushes);
  ++entry.version;
  const std::map<std::uint32_t, Pushing> done = std::exchange(entry.round, {});
  for (const auto& [worker, one] : done) {
    ++entry.clocks[worker];
    answers.reply(one.event, comm::Payload(wire::encode(wire::Pushed{})), 0);
  }
  try_again(entry, answers);
}

void ServedStore::apply(Entry& entry, const std::vector<const Pushing*>& pushes) {
  if (pushes[0]->has_rows) {
    std::vector<SentRows> rows;
    for (const Pushing* one : pushes) rows.push_back({one->rows, {one->event.payload}});
    return entry.value.apply_rows(rows, rule_);
  }
  if (!parse_compression(pushes[0]->compression).is_none()) return apply_codes(entry, pushes);
  std::vector<SentFloats> values;
  for (const Pushing* one : pushes)
    for (std::size_t part = 1; part <= one->values; ++part)
      values.push_back({one->event.payload, part});
  entry.value.apply(values, rule_);
}

// In the order of workers.
void ServedStore::apply_codes(Entry& entry, const std::vector<const Pushing*>& pushes) {
  const auto codec = make_codec(parse_compression(pushes[0]->compression));
  std::vector<float> sum(entry.value.floats());
  std::vector<std::byte> code(codec->payload_bytes(sum.size()));
  for (const Pushing* one : pushes) {
    one->event.payload.copy_to(1, code);
    codec->decode_add(code, sum);
  }
  entry.value.apply_sum(sum, rule_);
}

// The slowest worker may have come on.
void ServedStore::try_again(Entry& entry, Answers& answers) {
  for (const comm::MessageEvent& event : std::exchange(entry.waiting, {})) try {
      switch (wire::to_subject(event.topic).topic) {
        case wire::Topic::push: push(event, answers); break;
        case wire::Topic::push_rows: push_rows(event, answers); break;
        case wire::Topic::pull: pull(event, answers); break;
        default: pull_rows(event, answers);
      }
    } catch (const Error& error) {
      answers.fail(event, error.what());
    }
}

void ServedStore::pull(const comm::MessageEvent& event, Answers& answers) {
  const auto request = message_of<wire::Pull>(event);
  Entry& entry = find(request.clock);
  if (must_wait(entry, request.clock, request.clock.count)) return entry.waiting.push_back(event);
  comm::Payload floats;
  entry.value.add_to(floats);
  reply_pulled(event, entry, std::move(floats), answers);
}

void ServedStore::pull_rows(const comm::MessageEvent& event, Answers& answers) {
  const auto request = message_of<wire::PullRows>(event);
  Entry& entry = find(request.clock);
  check_rows(request.clock.key, entry.value, request.rows);
  if (must_wait(entry, request.clock, request.clock.count)) return entry.waiting.push_back(event);
  comm::Payload floats;
  entry.value.add_rows_to(floats, request.rows);
  reply_pulled(event, entry, std::move(floats), answers);
}

void ServedStore::reply_pulled(const comm::MessageEvent& event, const Entry& entry,
                               comm::Payload floats, Answers& answers) const {
  comm::Payload payload(wire::encode(wire::Pulled{entry.version, slowest(entry)}));
  for (const auto& [bytes, owner] : floats.segments(0)) payload.add(bytes, owner);
  answers.reply(event, std::move(payload), 0);
}

void ServedStore::set_rule(const comm::MessageEvent& event, const wire::SetRule& request,
                           Answers& answers) {
  rule_ = {request.rule.make(), request.rescale};
  for (auto& [key, entry] : entries_) entry.value.forget_update();
  answers.reply(event, {}, 0);
}

void ServedStore::read_state(const comm::MessageEvent& event, const wire::KeyState& request,
                             Answers& answers) {
  const StoreUpdate& update = find(request.key).value.update();
  wire::KeyState state = request;
  state.steps = update.steps();
  comm::Payload payload(wire::encode(state));
  for (const std::vector<float>& slot : update.slots()) {
    const auto copy = std::make_shared<std::vector<float>>(slot);
    add_floats(payload, *copy, copy);
  }
  answers.reply(event, std::move(payload), 0);
}

void ServedStore::write_state(const comm::MessageEvent& event, const wire::KeyState& request,
                              Answers& answers) {
  ServedValue& value = find(request.key).value;
  const std::size_t slots = event.payload.parts() - 1;
  if (!rule_.rule) throw InvalidArgument("key {}: there is no optimizer", request.key);
  if (request.steps < 0 || (slots != 0 && slots != static_cast<std::size_t>(rule_.rule->slots())))
    throw InvalidArgument("key {}: {} slots, the rule {} has {}", request.key, slots,
                          rule_.rule->name(), rule_.rule->slots());
  std::vector<std::vector<float>> numbers(slots);
  for (std::size_t k = 0; k < slots; ++k) {
    check_floats(event.payload, k + 1, value.floats());
    numbers[k].resize(value.floats());
    copy_floats(event.payload, k + 1, numbers[k]);
  }
  value.update().restore(request.steps, std::move(numbers));
  answers.reply(event, {}, 0);
}

}  // namespace lockstep::kvstore
