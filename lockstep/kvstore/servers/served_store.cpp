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

// The floats of a value that a request is about.
template <class Message>
std::pair<std::size_t, std::size_t> range_of(const Message& request, const ServedValue& value) {
  const std::size_t all = value.floats();
  if (request.count == 0 && request.offset == 0) return {0, all};
  if (request.count == 0 || request.count > all || request.offset > all - request.count)
    throw InvalidArgument("key {}: floats {} to {}, the value has {} here", request.clock.key,
                          request.offset, request.offset + request.count, all);
  return {request.offset, request.count};
}

// All workers in step cut a value the same way.
void check_part(const wire::Push& request, std::size_t offset, std::size_t count,
                std::size_t floats) {
  const bool is_whole = count == floats;
  const bool is_part = request.in_step && offset % wire::kFloatsAtOnce == 0 &&
                       count == std::min<std::size_t>(wire::kFloatsAtOnce, floats - offset);
  if (!is_whole && !is_part)
    throw InvalidArgument("key {}: floats {} to {} of {} are not pushed by themselves",
                          request.clock.key, offset, offset + count, floats);
}

// Of sums that lie in the memory of answers: shorter ones are not worth it, and all together are
// not more than a part of what a client shows.
constexpr std::size_t kLeastInAnswer = 64 << 10, kMostInAnswers = std::size_t{96} << 20;

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
  for (auto& [key, entry] : entries_) {
    entry.value.settle();  // the memory of answers to this worker is not wanted any more
    try_again(entry, answers);
  }
  return !present_.empty();
}

void ServedStore::lose(std::uint32_t worker, Answers& answers) {
  for (auto& [key, entry] : entries_) {
    if (has_all_of(entry, worker)) continue;
    const std::string why = fmt::format("key {}: worker {} was lost", key, worker);
    entry.value.drop_parts();
    for (const auto& [offset, part] : std::exchange(entry.round, {})) {
      for (const auto& [other, push] : part.pushes) answers.fail(push.event, why);
      for (const Pushing& push : part.unanswered) answers.fail(push.event, why);
    }
  }
}

void ServedStore::add_waiting(std::vector<comm::MessageEvent>& events) const {
  for (const auto& [key, entry] : entries_) {
    for (const auto& [offset, part] : entry.round)
      for (const auto& [worker, push] : part.pushes) events.push_back(push.event);
    for (const comm::MessageEvent& event : entry.waiting)
      if (!wire::only_reads(wire::to_subject(event.topic).topic)) events.push_back(event);
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
    ServedValue& value = found->second.value;
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
bool ServedStore::is_ahead(const Entry& entry, const wire::Clock& clock, std::uint64_t done) const {
  const std::uint64_t least = slowest(entry);
  return least < done && done - least > clock.bound;
}

// A pull may overtake the push that it comes after.
bool ServedStore::must_wait(const Entry& entry, const wire::Clock& pulled) const {
  return entry.clocks[pulled.worker] < pulled.count || is_ahead(entry, pulled, pulled.count);
}

void ServedStore::push(const comm::MessageEvent& event, Answers& answers) {
  const auto request = message_of<wire::Push>(event);
  const Entry& entry = find(request.clock);
  const auto codec = make_codec(parse_compression(request.compression));
  const std::size_t values = event.payload.parts() - 1;
  if (values == 0 || (codec && values != 1))
    throw Corrupt("key {}: {} values", request.clock.key, values);
  const auto [offset, count] = range_of(request, entry.value);
  if (codec && count != entry.value.floats())
    throw Corrupt("key {}: a part of a code", request.clock.key);
  if (request.pulls && !request.in_step)
    throw InvalidArgument("key {}: a push that pulls, of a worker that is not in step",
                          request.clock.key);
  check_part(request, offset, count, entry.value.floats());
  for (std::size_t part = 1; part <= values; ++part)
    if (!codec)
      check_floats(event.payload, part, count);
    else if (event.payload.size(part) != codec->payload_bytes(count))
      throw Corrupt("key {}: {} bytes of code, expected {}", request.clock.key,
                    event.payload.size(part), codec->payload_bytes(count));
  take(event, request.clock, request.in_step, request.seen,
       {.event = event,
        .compression = request.compression,
        .values = values,
        .offset = offset,
        .count = count,
        .pulls = request.pulls},
       answers);
}

void ServedStore::push_rows(const comm::MessageEvent& event, Answers& answers) {
  auto request = message_of<wire::PushRows>(event);
  const Entry& entry = find(request.clock);
  check_rows(request.clock.key, entry.value, request.rows);
  check_parts(event.payload, 2);
  check_floats(event.payload, 1, request.rows.size() * entry.value.width());
  take(event, request.clock, request.in_step, request.seen,
       {.event = event,
        .has_rows = true,
        .values = 1,
        .rows = std::move(request.rows),
        .count = entry.value.floats()},
       answers);
}

void ServedStore::check_pushes_agree(const std::string& key, const Entry& entry,
                                     const Pushing& own) const {
  for (const auto& [offset, part] : entry.round) {
    if (part.is_added && (own.has_rows || own.count == entry.value.floats()) &&
        part.count != own.count)
      throw InvalidArgument("key {}: others push it in parts", key);
    for (const auto& [worker, other] : part.pushes)
      if (other.has_rows != own.has_rows || other.compression != own.compression ||
          (other.count != own.count && other.offset == own.offset))
        throw InvalidArgument("key {}: worker {} pushes {}{}, and not all do", key, worker,
                              other.has_rows ? "rows" : "whole values",
                              other.compression.empty() ? "" : " as " + other.compression);
  }
}

// A push that was applied is answered again; the worker's next one is applied when its turn comes.
void ServedStore::take(const comm::MessageEvent& event, const wire::Clock& clock, bool in_step,
                       std::uint64_t seen, Pushing pushing, Answers& answers) {
  Entry& entry = find(clock);
  std::uint64_t& done = entry.clocks[clock.worker];
  if (clock.count <= done) return answer_pushed(entry, pushing, answers);
  if (clock.count != done + 1)
    throw InvalidArgument("key {}: push {} of worker {}, expected {}", clock.key, clock.count,
                          clock.worker, done + 1);
  if (in_step) return take_in_step(entry, clock, std::move(pushing), answers);
  if (is_ahead(entry, clock, done)) return entry.waiting.push_back(event);
  const wire::Pushed pushed{entry.version > seen ? entry.version - seen : 0};
  apply(entry, {&pushing});
  ++done;
  ++entry.version;
  answers.reply(event, comm::Payload(wire::encode(pushed)), 0);
  try_again(entry, answers);
}

// A part is added up when everybody's is here, and answered: what was sent is not kept for longer.
// Whoever pulls with its push has the answer when the value is whole, or when the part's sum is, if
// that is what it will be: then it takes the first parts while the last ones are made.
void ServedStore::take_in_step(Entry& entry, const wire::Clock& clock, Pushing pushing,
                               Answers& answers) {
  check_pushes_agree(clock.key, entry, pushing);
  const std::size_t offset = pushing.offset;
  Part& part = entry.round[offset];
  part.count = pushing.count;
  if (part.is_added) {
    pushing.event.payload = {};
    part.unanswered.push_back(std::move(pushing));
    return answer_part(entry, part, answers);
  }
  part.pushes.insert_or_assign(clock.worker, std::move(pushing));
  if (part.pushes.size() < workers_) return;
  add_up(entry, offset, part, answers);
  answer_part(entry, part, answers);
  if (!is_whole(entry)) return;
  finish_round(entry, answers);
  try_again(entry, answers);
}

void ServedStore::add_up(Entry& entry, std::uint64_t offset, Part& part, Answers& answers) {
  std::vector<const Pushing*> pushes;
  for (const auto& [worker, one] : part.pushes) pushes.push_back(&one);
  part.sum = room_in_answer(part, answers);
  if (part.sum)
    entry.value.add_part_in(*part.sum, offset, values_of(pushes));
  else if (part.count == entry.value.floats())
    apply(entry, pushes);
  else
    entry.value.add_part(offset, part.count, values_of(pushes));
  for (auto& [worker, one] : part.pushes) {
    one.event.payload = {};
    part.unanswered.push_back(std::move(one));
  }
  part.pushes.clear();
  part.is_added = true;
}

// Where nothing but the sum becomes of the floats: for the first who pulls them. Answers of which
// this is kept find no room for others, so it is not kept of many.
std::optional<AnsweredFloats> ServedStore::room_in_answer(const Part& part,
                                                          Answers& answers) const {
  const std::size_t bytes = part.count * sizeof(float);
  if (rule_.rule || bytes < kLeastInAnswer || *in_answers_ + bytes > kMostInAnswers) return {};
  for (const auto& [worker, one] : part.pushes) {
    if (one.has_rows || !parse_compression(one.compression).is_none()) return {};
    if (one.pulls) return counted(answers.allocate(one.event, bytes));
  }
  return {};
}

AnsweredFloats ServedStore::counted(comm::MessageBuffer buffer) const {
  *in_answers_ += buffer.bytes.size();
  const auto forget = [all = in_answers_, bytes = buffer.bytes.size()](const void*) {
    *all -= bytes;
  };
  return {std::move(buffer), {in_answers_.get(), forget}};
}

// Those who pull what is not made yet go on waiting.
void ServedStore::answer_part(Entry& entry, Part& part, Answers& answers) {
  for (Pushing& one : std::exchange(part.unanswered, {})) {
    if (!one.pulls) {
      answers.reply(one.event, comm::Payload(wire::encode(wire::Pushed{})), 0);
    } else if (part.sum) {
      comm::Payload payload(
          wire::encode(wire::PushPulled{{}, {entry.version + 1, slowest(entry) + 1}}));
      answers.reply(one.event, std::move(payload.add(part.sum->buffer)), 0);
    } else {
      part.unanswered.push_back(std::move(one));
    }
  }
}

// Of a push that has been applied.
void ServedStore::answer_pushed(Entry& entry, const Pushing& pushing, Answers& answers) {
  if (!pushing.pulls)
    return answers.reply(pushing.event, comm::Payload(wire::encode(wire::Pushed{})), 0);
  comm::Payload payload(wire::encode(wire::PushPulled{{}, {entry.version, slowest(entry)}}));
  entry.value.add_to(payload, pushing.offset, pushing.count);
  answers.reply(pushing.event, std::move(payload), 0);
}

bool ServedStore::is_whole(const Entry& entry) {
  std::size_t added = 0;
  for (const auto& [offset, part] : entry.round) added += part.is_added ? part.count : 0;
  return added == entry.value.floats();
}

bool ServedStore::has_all_of(const Entry& entry, std::uint32_t worker) {
  std::size_t count = 0;
  for (const auto& [offset, part] : entry.round)
    count += part.is_added || part.pushes.contains(worker) ? part.count : 0;
  return count == entry.value.floats();
}

void ServedStore::finish_round(Entry& entry, Answers& answers) {
  if (entry.round.size() > 1 || entry.value.has_parts_in_answers()) entry.value.apply_parts(rule_);
  ++entry.version;
  for (std::uint64_t& clock : entry.clocks) ++clock;
  for (const auto& [offset, part] : std::exchange(entry.round, {}))
    for (const Pushing& one : part.unanswered) answer_pushed(entry, one, answers);
}

void ServedStore::apply(Entry& entry, const std::vector<const Pushing*>& pushes) {
  if (pushes[0]->has_rows) {
    std::vector<SentRows> rows;
    for (const Pushing* one : pushes) rows.push_back({one->rows, {one->event.payload}});
    return entry.value.apply_rows(rows, rule_);
  }
  if (!parse_compression(pushes[0]->compression).is_none()) return apply_codes(entry, pushes);
  entry.value.apply(values_of(pushes), rule_);
}

std::vector<SentFloats> ServedStore::values_of(const std::vector<const Pushing*>& pushes) {
  std::vector<SentFloats> values;
  for (const Pushing* one : pushes)
    for (std::size_t part = 1; part <= one->values; ++part)
      values.push_back({one->event.payload, part});
  return values;
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
  const auto [offset, count] = range_of(request, entry.value);
  if (must_wait(entry, request.clock)) return entry.waiting.push_back(event);
  comm::Payload floats;
  entry.value.add_to(floats, offset, count);
  reply_pulled(event, entry, std::move(floats), answers);
}

void ServedStore::pull_rows(const comm::MessageEvent& event, Answers& answers) {
  const auto request = message_of<wire::PullRows>(event);
  Entry& entry = find(request.clock);
  check_rows(request.clock.key, entry.value, request.rows);
  if (must_wait(entry, request.clock)) return entry.waiting.push_back(event);
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
