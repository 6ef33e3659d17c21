// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/server_state.h"

#include "lockstep/base/error.h"

namespace lockstep::kvstore {
namespace {

constexpr std::size_t kMostStores = 1024;
constexpr std::size_t kMostBooks = 1024;

template <class Message>
Message message_of(const comm::MessageEvent& event) {
  if (event.payload.parts() == 0) throw Corrupt("message: it is empty");
  return wire::decode<Message>(event.payload.text(0));
}

}  // namespace

ServerState::ServerState(int workers, std::size_t most_bytes, int threads, Answers& answers)
    : workers_(workers), most_bytes_(most_bytes), answers_(answers), team_(threads, "server") {}

void ServerState::handle(const comm::MessageEvent& event) {
  const Topic topic = wire::to_subject(event.topic).topic;
  if (!BatchedAnswers::is_single(event)) return;  // nobody's requests have such numbers
  if (topic != Topic::batch && topic != Topic::read_batch) return handle_single(event);
  std::vector<comm::MessageEvent> requests;
  try {
    requests = answers_.open(event);
  } catch (const Error& error) {
    return answers_.fail(event, error.what());
  }
  for (const comm::MessageEvent& request : requests) handle_single(request);
}

void ServerState::handle_single(const comm::MessageEvent& event) {
  try {
    dispatch(event);
  } catch (const Error& error) {
    answers_.fail(event, error.what());
  } catch (const std::bad_alloc&) {
    answers_.fail(event, "there is no memory left");
  }
}

void ServerState::worker_left(std::uint32_t worker) {
  for (auto& [name, table] : pushed_) table.worker_left(worker);
  for (auto& [name, book] : books_) book.worker_left(worker, answers_);
  for (auto place = stores_.begin(); place != stores_.end();)
    place = place->second.leave(worker, answers_) ? std::next(place) : stores_.erase(place);
}

std::vector<comm::MessageEvent> ServerState::due() const {
  std::vector<comm::MessageEvent> events;
  for (const auto& [name, book] : books_)
    for (const wire::RemindTicket& one : book.reminders(comm::Clock::now())) {
      comm::MessageEvent& event = events.emplace_back();
      event.topic = static_cast<std::uint32_t>(Topic::remind_ticket);
      event.payload.add(wire::encode(one));
    }
  return events;
}

void ServerState::worker_lost(std::uint32_t worker, bool job_survives) {
  if (!job_survives)
    for (auto& [name, table] : tables_) table.lose(worker, answers_);
  for (auto& [number, store] : stores_) store.lose(worker, answers_);
}

void ServerState::dispatch(const comm::MessageEvent& event) {
  const Topic topic = wire::to_subject(event.topic).topic;
  if (topic >= Topic::make_table && topic <= Topic::write_table) return handle_table(event, topic);
  if (topic == Topic::give_rows || topic == Topic::finish_rows || topic == Topic::align_table)
    return handle_table(event, topic);
  if (topic >= Topic::make_pushed && topic <= Topic::end_ticket) return handle_pushed(event, topic);
  if (topic == Topic::read_tickets || topic == Topic::remind_ticket)
    return handle_pushed(event, topic);
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
  if (topic == Topic::read_table || topic == Topic::write_table) {
    const auto request = message_of<wire::Access>(event);
    const auto place = pushed_.find(request.table);
    if (place != pushed_.end())
      return topic == Topic::read_table ? place->second.read(event, request, answers_)
                                        : place->second.write(event, request, answers_);
  }
  switch (topic) {
    case Topic::give: return in_step(message_of<wire::Give>(event), &ServedTable::give);
    case Topic::measure: return in_step(message_of<wire::Measure>(event), &ServedTable::measure);
    case Topic::finish: return in_step(message_of<wire::Finish>(event), &ServedTable::finish);
    case Topic::give_rows:
      return in_step(message_of<wire::GiveRows>(event), &ServedTable::give_rows);
    case Topic::finish_rows:
      return in_step(message_of<wire::FinishRows>(event), &ServedTable::finish_rows);
    case Topic::read_table: return between_steps(&ServedTable::read);
    case Topic::write_table: return between_steps(&ServedTable::write);
    case Topic::align_table: {
      const auto request = message_of<wire::AlignTable>(event);
      return table(request.table).align(event, request, answers_);
    }
    case Topic::settle: {
      const auto request = message_of<wire::Settle>(event);
      return table(request.step.table).settle(event, request, answers_);
    }
    default: return make_table(event);
  }
}

void ServerState::handle_pushed(const comm::MessageEvent& event, Topic topic) {
  const auto now = comm::Clock::now();
  switch (topic) {
    case Topic::make_pushed: return make_pushed(event);
    case Topic::push_gradient: {
      const auto request = message_of<wire::PushGradient>(event);
      return pushed(request.table).push(event, request, team_, answers_);
    }
    case Topic::finish_gradient: {
      const auto request = message_of<wire::FinishGradient>(event);
      return pushed(request.push.table).finish(event, request, team_, answers_);
    }
    case Topic::open_tickets: return open_tickets(event);
    case Topic::take_ticket: {
      const auto request = message_of<wire::TakeTicket>(event);
      return book(request.table, request.epoch).take(event, request, answers_, now);
    }
    case Topic::read_tickets: {
      const auto request = message_of<wire::ReadTickets>(event);
      return book(request.table, request.epoch).read(event, answers_);
    }
    case Topic::remind_ticket: {
      const auto request = message_of<wire::RemindTicket>(event);
      return book(request.table, request.epoch).remind(event, request, answers_);
    }
    default: {
      const auto request = message_of<wire::EndTicket>(event);
      return book(request.table, request.epoch).end(event, request, answers_, now);
    }
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
  for (const auto& [name, table] : pushed_) bytes += table.bytes();
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
  if (found != tables_.end()) found->second.check_generation(request);
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

std::vector<comm::MessageEvent> ServerState::waiting() const {
  std::vector<comm::MessageEvent> events;
  for (const auto& [name, table] : tables_) table.add_waiting(events);
  for (const auto& [number, store] : stores_) store.add_waiting(events);
  for (const auto& [name, table] : pushed_) table.add_waiting(events);
  for (const auto& [name, book] : books_) book.add_waiting(events);
  return events;
}

comm::Payload ServerState::save() {
  wire::StateImage image;
  comm::Payload floats;
  for (const auto& [name, table] : tables_) image.tables.push_back(table.save(floats));
  for (auto& [number, store] : stores_) {
    image.stores.push_back(store.save(floats));
    image.stores.back().store = number;
  }
  for (const auto& [name, table] : pushed_) image.pushed.push_back(table.save(floats));
  for (const auto& [name, book] : books_) image.books.push_back(book.save());
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
  pushed_.clear();
  books_.clear();
  for (const wire::TableImage& table : image.tables)
    tables_.try_emplace(table.made.table, table, floats);
  for (const wire::StoreImage& store : image.stores)
    stores_.try_emplace(store.store, workers_, store, floats);
  for (const wire::PushedImage& table : image.pushed)
    pushed_.try_emplace(table.made.table, table, floats);
  for (const wire::BookImage& book : image.books)
    books_.try_emplace(book.range.table, book, comm::Clock::now());
}

// Each is that of a new run, unless other workers go on with it.
void ServerState::make_pushed(const comm::MessageEvent& event) {
  const auto request = message_of<wire::MakeTable>(event);
  const auto found = pushed_.find(request.table);
  if (found != pushed_.end()) wire::check_generation(request.epoch, found->second.epoch());
  if (request.goes_on) {
    if (found == pushed_.end() || !found->second.is(request))
      throw NotFound("there is no table '{}' to go on with", request.table);
    found->second.begin_epoch(request.epoch);
    return answers_.reply(event, {}, 0);
  }
  const std::size_t before = found == pushed_.end() ? 0 : found->second.bytes();
  check_room(fmt::format("table '{}'", request.table), PushedTable::bytes(request),
             bytes() - before);
  PushedTable made(request);
  pushed_.erase(request.table);
  pushed_.emplace(request.table, std::move(made));
  answers_.reply(event, {}, 0);
}

// A book of another epoch has had its day.
void ServerState::open_tickets(const comm::MessageEvent& event) {
  const auto request = message_of<wire::OpenTickets>(event);
  const auto now = comm::Clock::now();
  const auto found = books_.find(request.table);
  if (found != books_.end() && (found->second.epoch() == request.epoch || request.goes_on))
    return found->second.open(event, request, answers_, now);
  if (found != books_.end()) wire::check_generation(request.epoch, found->second.epoch());
  if (found == books_.end() && books_.size() >= kMostBooks)
    throw InvalidArgument("tickets of {} tables are dealt already", books_.size());
  TicketBook made(request.epoch, now);
  made.open(event, request, answers_, now);
  if (found != books_.end()) found->second.drop("another run has begun", answers_);
  books_.insert_or_assign(request.table, std::move(made));
}

void ServerState::all_left() {
  tables_.clear();
  pushed_.clear();
  books_.clear();
}

PushedTable& ServerState::pushed(const std::string& name) {
  const auto found = pushed_.find(name);
  if (found == pushed_.end()) throw NotFound("there is no table '{}'", name);
  return found->second;
}

TicketBook& ServerState::book(const std::string& name, std::uint64_t epoch) {
  const auto found = books_.find(name);
  if (found == books_.end()) throw NotFound("there are no tickets of table '{}'", name);
  if (found->second.epoch() != epoch)
    throw InvalidArgument(
        "a request of another membership: its epoch is {}, that of the tickets {}", epoch,
        found->second.epoch());
  return found->second;
}

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
