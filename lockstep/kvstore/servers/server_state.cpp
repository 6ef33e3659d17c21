// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/server_state.h"

#include "lockstep/base/error.h"

namespace lockstep::kvstore {
namespace {

constexpr std::size_t kMostStores = 1024;

template <class Message>
Message message_of(const comm::MessageEvent& event) {
  if (event.payload.parts() == 0) throw Corrupt("message: it is empty");
  return wire::decode<Message>(event.payload.text(0));
}

}  // namespace

ServerState::ServerState(int workers, std::size_t most_bytes, int threads, Answers& answers)
    : workers_(workers), most_bytes_(most_bytes), answers_(answers), team_(threads, "server") {}

void ServerState::handle(const comm::MessageEvent& event) {
  try {
    dispatch(event);
  } catch (const Error& error) {
    answers_.fail(event, error.what());
  } catch (const std::bad_alloc&) {
    answers_.fail(event, "there is no memory left");
  }
}

void ServerState::worker_left(std::uint32_t worker) {
  for (auto place = stores_.begin(); place != stores_.end();)
    place = place->second.leave(worker, answers_) ? std::next(place) : stores_.erase(place);
}

void ServerState::dispatch(const comm::MessageEvent& event) {
  const Topic topic = wire::to_subject(event.topic).topic;
  if (topic >= Topic::make_table && topic <= Topic::write_table) return handle_table(event, topic);
  if (topic >= Topic::join_store && topic <= Topic::write_state) return handle_store(event, topic);
  throw Corrupt("message: there is no request of kind {}", static_cast<std::uint32_t>(topic));
}

void ServerState::handle_table(const comm::MessageEvent& event, Topic topic) {
  const auto in_step = [&](const auto& request, auto method) {
    (table(request.step.table).*method)(event, request, team_, answers_);
  };
  const auto between_steps = [&](auto method) {
    const auto request = message_of<wire::Access>(event);
    (table(request.table).*method)(event, request, answers_);
  };
  switch (topic) {
    case Topic::give: return in_step(message_of<wire::Give>(event), &ServedTable::give);
    case Topic::measure: return in_step(message_of<wire::Measure>(event), &ServedTable::measure);
    case Topic::finish: return in_step(message_of<wire::Finish>(event), &ServedTable::finish);
    case Topic::read_table: return between_steps(&ServedTable::read);
    case Topic::write_table: return between_steps(&ServedTable::write);
    case Topic::settle: {
      const auto request = message_of<wire::Settle>(event);
      return table(request.step.table).settle(event, request, answers_);
    }
    default: return make_table(event);
  }
}

void ServerState::handle_store(const comm::MessageEvent& event, Topic topic) {
  const auto of_key = [&](const auto& request, auto method) {
    (store(request.store).*method)(event, request, answers_);
  };
  const auto by_clock = [&](const auto& request, auto method) {
    (store(request.clock.store).*method)(event, answers_);
  };
  switch (topic) {
    case Topic::join_store: return join_store(event);
    case Topic::leave_store: return leave_store(event);
    case Topic::init_key: return init_key(event);
    case Topic::push: return by_clock(message_of<wire::Push>(event), &ServedStore::push);
    case Topic::push_rows:
      return by_clock(message_of<wire::PushRows>(event), &ServedStore::push_rows);
    case Topic::pull: return by_clock(message_of<wire::Pull>(event), &ServedStore::pull);
    case Topic::pull_rows:
      return by_clock(message_of<wire::PullRows>(event), &ServedStore::pull_rows);
    case Topic::set_rule: return of_key(message_of<wire::SetRule>(event), &ServedStore::set_rule);
    case Topic::read_state:
      return of_key(message_of<wire::KeyState>(event), &ServedStore::read_state);
    default: return of_key(message_of<wire::KeyState>(event), &ServedStore::write_state);
  }
}

std::size_t ServerState::bytes() const {
  std::size_t bytes = 0;
  for (const auto& [name, table] : tables_) bytes += table.bytes();
  for (const auto& [number, store] : stores_) bytes += store.bytes();
  return bytes;
}

void ServerState::check_room(const std::string& what, std::size_t bytes, std::size_t taken) const {
  if (taken > most_bytes_ || bytes > most_bytes_ - taken)
    throw InvalidArgument("{} would take {} bytes, and {} of {} are taken", what, bytes, taken,
                          most_bytes_);
}

// One of the same name with another net or rule has had its day.
void ServerState::make_table(const comm::MessageEvent& event) {
  const auto request = message_of<wire::MakeTable>(event);
  const auto found = tables_.find(request.table);
  if (found != tables_.end() && found->second.is(request)) {
    found->second.begin_epoch(request, answers_);
    return answers_.reply(event, {}, 0);
  }
  const std::size_t own = ServedTable::bytes(request);
  check_room(fmt::format("table '{}'", request.table), own, bytes());
  ServedTable made(request);
  if (found != tables_.end()) {
    found->second.drop(answers_);
    tables_.erase(found);
  }
  tables_.emplace(request.table, std::move(made));
  answers_.reply(event, {}, 0);
}

comm::Payload ServerState::save() const {
  wire::StateImage image;
  comm::Payload floats;
  for (const auto& [name, table] : tables_) image.tables.push_back(table.save(floats));
  for (const auto& [number, store] : stores_) {
    image.stores.push_back(store.save(floats));
    image.stores.back().store = number;
  }
  comm::Payload payload(wire::encode(std::move(image)));
  for (std::size_t part = 0; part < floats.parts(); ++part)
    for (const auto& [bytes, owner] : floats.segments(part)) payload.add(bytes, owner);
  return payload;
}

void ServerState::load(const comm::Payload& payload) {
  const auto image = wire::decode<wire::StateImage>(payload.text(0));
  FloatParts floats(payload);
  tables_.clear();
  stores_.clear();
  for (const wire::TableImage& table : image.tables)
    tables_.try_emplace(table.made.table, table, floats);
  for (const wire::StoreImage& store : image.stores)
    stores_.try_emplace(store.store, workers_, store, floats);
}

void ServerState::all_left() { tables_.clear(); }

ServedTable& ServerState::table(const std::string& name) {
  const auto found = tables_.find(name);
  if (found == tables_.end()) throw NotFound("there is no table '{}'", name);
  return found->second;
}

ServedStore& ServerState::store(std::uint64_t number) {
  const auto found = stores_.find(number);
  if (found == stores_.end()) throw NotFound("there is no store {}", number);
  return found->second;
}

void ServerState::join_store(const comm::MessageEvent& event) {
  const auto request = message_of<wire::JoinStore>(event);
  if (!stores_.contains(request.store) && stores_.size() >= kMostStores)
    throw InvalidArgument("there are {} stores already", stores_.size());
  ServedStore made(workers_);
  made.join(request.worker);
  const auto [place, is_new] = stores_.try_emplace(request.store, std::move(made));
  if (!is_new) place->second.join(request.worker);
  answers_.reply(event, {}, 0);
}

void ServerState::leave_store(const comm::MessageEvent& event) {
  const auto request = message_of<wire::JoinStore>(event);
  if (!store(request.store).leave(request.worker, answers_)) stores_.erase(request.store);
  answers_.reply(event, {}, 0);
}

void ServerState::init_key(const comm::MessageEvent& event) {
  const auto request = message_of<wire::InitKey>(event);
  ServedStore& own = store(request.store);
  check_room("key " + request.key, own.bytes_with(request) - own.bytes(), bytes());
  own.init(event, request, answers_);
}

}  // namespace lockstep::kvstore
