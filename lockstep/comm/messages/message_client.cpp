// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/messages/message_client.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "lockstep/base/hmac.h"
#include "lockstep/comm/detail/assembler.h"
#include "lockstep/comm/detail/client_shared.h"
#include "lockstep/comm/detail/message_thread.h"
#include "lockstep/comm/detail/wire_turn.h"
#include "lockstep/comm/meter.h"

namespace lockstep::comm {
namespace {

using detail::FrameHeader;
using detail::PendingRequest;
using detail::WireEvent;

constexpr auto kCheckWait = std::chrono::milliseconds(10);
constexpr int kFramesInTurn = 256;
constexpr auto kAttempt = std::chrono::seconds(2);  // to connect again, before others get a turn

std::unique_ptr<detail::MessageWire> connect(const MessageClientOptions& options, std::uint64_t id,
                                             const detail::Waker& waker, Deadline deadline) {
  return options.hub ? detail::connect_in_memory(options, id, waker, deadline)
                     : detail::connect_by_zmq(options, id, waker, deadline);
}

std::uint64_t random_id() {
  const std::string bytes = random_bytes(8);
  std::string_view rest = bytes;
  return detail::take_number(rest, 8);
}

}  // namespace

// Whoever asks sends its request, if there is room, and receives the answer while it waits for it.
// The rest is for a thread of the client's own.
struct MessageClient::Impl final : detail::FrameMover {
  explicit Impl(const MessageClientOptions& given)
      : options(given),
        generation(given.generation),
        assembler(given.longest_message),
        wire(connect(options, id, waker, Clock::now() + given.connect_timeout)),
        out(wire->memory(0)),
        local(wire->local()),
        thread(detail::start_message_thread("message client",
                                            [this](const std::stop_token& stop) { run(stop); })) {
    const std::lock_guard lock(shared->mutex);
    shared->mover = this;
  }
  ~Impl() {
    leaves = !abort("the client is closed");
    std::unique_lock lock(shared->mutex);
    shared->mover = nullptr;
    shared->changed.wait(lock, [&] { return !turn.is_of_caller(); });
    thread.request_stop();
    turn.call();
    lock.unlock();
    waker.wake();
    shared->changed.notify_all();
    thread.join();
  }

  // False when this is the first time.
  bool abort(const std::string& reason);
  PendingReply request(Payload payload, const RequestOptions& request);
  std::shared_ptr<detail::MessageMemory> memory() const;
  bool has_room(std::size_t bytes) const;

  bool can_move() const override { return wire && turn.is_free(); }
  void move_until(std::unique_lock<std::mutex>& lock, Deadline until,
                  const std::function<bool()>& is_done) override;
  void look() override;
  bool is_stuck() const { return !out.is_empty() || (wire && wire->has_rest()); }
  // Whoever moves frames has something else to do.
  void call_mover() { turn.is_free() ? turn.call() : waker.wake(); }

  void run(const std::stop_token& stop);
  bool move_on(std::unique_lock<std::mutex>& lock, Deadline until,
               const std::function<bool()>& is_done);
  // Until when one who moves frames may sleep, and whether it waits for room.
  struct Step {
    Deadline until = {};
    bool is_blocked = false;
  };
  Step take_and_send();
  void fail(const std::string& reason);
  void give_up();
  void reconnect(const std::stop_token& stop);
  void resume(std::unique_ptr<detail::MessageWire> fresh);
  bool take_events();
  void take_frame(detail::Frame frame);
  void finish(const detail::Message& message);
  bool send_requests();
  bool send_at_once();
  Deadline expire(Deadline now);
  void lose(const std::string& reason);
  void push(PendingRequest& one);
  void end(std::uint64_t number, std::exception_ptr error);
  void end_all(const std::function<std::exception_ptr(const PendingRequest&)>& error);

  MessageClientOptions options;
  std::uint64_t id = random_id();
  std::shared_ptr<detail::ClientShared> shared = std::make_shared<detail::ClientShared>(options);
  std::uint64_t generation;  // guarded by the shared mutex, as all below, but for the wire
  std::map<std::uint64_t, std::shared_ptr<PendingRequest>> pending;
  std::set<std::pair<Deadline, std::uint64_t>> deadlines;
  detail::Assembler assembler;
  std::uint64_t next_number = 1;
  bool is_over = false;   // it will not be connected again
  bool has_news = false;  // for those who wait for an answer, or for room
  detail::WireTurn turn;
  detail::Waker waker;
  // Of the one whose turn it is; it comes and goes under the mutex.
  std::unique_ptr<detail::MessageWire> wire;
  detail::SendQueue out;
  Endpoint local;
  std::atomic<bool> leaves = false;  // and says so
  std::jthread thread;
};

void MessageClient::Impl::end(std::uint64_t number, std::exception_ptr error) {
  const auto found = pending.find(number);
  if (found == pending.end()) return;
  PendingRequest& one = *found->second;
  one.is_done = true;
  one.error = std::move(error);
  one.payload = {};
  deadlines.erase({one.deadline, number});
  pending.erase(found);
  has_news = true;
}

void MessageClient::Impl::end_all(
    const std::function<std::exception_ptr(const PendingRequest&)>& error) {
  while (!pending.empty()) end(pending.begin()->first, error(*pending.begin()->second));
  out.clear();
  shared->changed.notify_all();
}

bool MessageClient::Impl::abort(const std::string& reason) {
  const std::lock_guard lock(shared->mutex);
  const bool was_aborted = shared->aborted.has_value();
  if (!was_aborted) shared->aborted = reason;
  end_all([&](const PendingRequest& one) { return shared->aborted_error(one.options.what); });
  if (turn.is_of_caller()) waker.wake();
  return was_aborted;
}

bool MessageClient::Impl::has_room(std::size_t bytes) const {
  return pending.size() < options.most_unanswered &&
         (out.is_empty() || out.bytes() + bytes <= options.most_unsent_bytes);
}

void MessageClient::Impl::push(PendingRequest& one) {
  FrameHeader header;
  header.kind = FrameHeader::Kind::request;
  header.topic = one.options.topic;
  header.message = one.number;
  header.first_open = pending.begin()->first;
  header.generation = one.generation;
  one.place = out.push(header, one.payload, one.options.priority);
}

PendingReply MessageClient::Impl::request(Payload payload, const RequestOptions& request) {
  const std::size_t bytes = payload.size();
  if (bytes > options.longest_message)
    throw InvalidArgument("{}: {} bytes for {}, expected at most {}", request.what, bytes,
                          shared->at, options.longest_message);
  auto one = std::make_shared<PendingRequest>();
  one->options = request;
  one->begin = Clock::now();
  one->deadline = one->begin + request.timeout;
  // Here, where it holds up nobody else.
  one->payload = detail::share(std::move(payload), memory().get());
  std::unique_lock lock(shared->mutex);
  const auto goes_on = [&] { return shared->aborted || is_over || has_room(bytes); };
  shared->await(lock, one->deadline, goes_on);
  const bool in_time = goes_on();
  if (shared->aborted) std::rethrow_exception(shared->aborted_error(request.what));
  if (is_over) std::rethrow_exception(shared->lost_error(request.what));
  if (!in_time) std::rethrow_exception(shared->timeout_of(*one));
  one->number = next_number++;
  one->generation = request.generation.value_or(generation);
  pending.emplace(one->number, one);
  deadlines.emplace(one->deadline, one->number);
  push(*one);
  if (shared->meter) shared->meter->add_sent(bytes);
  if (!send_at_once()) call_mover();
  PendingReply reply;
  reply.shared_ = shared;
  reply.request_ = std::move(one);
  return reply;
}

std::shared_ptr<detail::MessageMemory> MessageClient::Impl::memory() const {
  const std::lock_guard lock(shared->mutex);
  return wire ? wire->memory(0) : nullptr;
}

// Where it is nobody's turn, or the wire can nevertheless. False when there is more than that took.
bool MessageClient::Impl::send_at_once() {
  if (can_move()) try {
      send_requests();
      return !is_stuck();
    } catch (const std::exception& error) {
      fail(error.what());
    }
  while (wire && !out.is_empty() && wire->send_now(0, out.front())) out.pop();
  return out.is_empty();
}

// By those who wait; while nobody does, by the client's own thread, which also connects again. It
// makes way for those whom it has told something: they are likely to ask again.
void MessageClient::Impl::run(const std::stop_token& stop) {
  std::unique_lock lock(shared->mutex);
  const auto makes_way = [&] { return has_news && shared->waiting > 0 && !is_stuck(); };
  while (!stop.stop_requested()) {
    if (!wire) {
      lock.unlock();
      reconnect(stop);
      lock.lock();
    } else if (turn.await(lock, [&] { return !wire || stop.stop_requested(); })) {
      const bool ends = move_on(lock, Deadline::max(), makes_way);
      if (ends || !wire) turn.leave();
      if (!ends) continue;
      has_news = false;
      // Not before: whoever wakes up wants the mutex.
      lock.unlock();
      shared->changed.notify_all();
      lock.lock();
    }
  }
  if (wire && leaves) wire->say_goodbye();
}

void MessageClient::Impl::move_until(std::unique_lock<std::mutex>& lock, Deadline until,
                                     const std::function<bool()>& is_done) {
  turn.take();
  while (wire && !move_on(lock, until, is_done) && Clock::now() < until) {
  }
  turn.leave();
  has_news = false;
  if (!wire || is_stuck()) turn.call();
  // One of those who wait moves on, if any do; and whoever destroys the client waits for this.
  if (shared->waiting > 1 || shared->mover == nullptr) shared->changed.notify_all();
}

void MessageClient::Impl::look() {
  try {
    wire->sleep(Clock::now(), true, false);
    take_and_send();
  } catch (const std::exception& error) {
    fail(error.what());
  }
  if (!wire || is_stuck()) turn.call();
  if (std::exchange(has_news, false) && shared->waiting > 0) shared->changed.notify_all();
}

// Takes what has come, sends what waits, and sleeps until there is more, if it is not done. True
// when it is; has_news says whether others are to be told.
bool MessageClient::Impl::move_on(std::unique_lock<std::mutex>& lock, Deadline until,
                                  const std::function<bool()>& is_done) try {
  const Step step = take_and_send();
  if (!wire || is_done()) return is_done();
  const int others = shared->waiting - (turn.is_of_caller() ? 1 : 0);
  const bool tells = std::exchange(has_news, false) && others > 0;
  lock.unlock();
  if (tells) shared->changed.notify_all();
  wire->sleep(std::min(step.until, until), true, step.is_blocked);
  lock.lock();
  return false;
} catch (const std::exception& error) {
  if (!lock.owns_lock()) lock.lock();
  fail(error.what());
  return is_done();
}

MessageClient::Impl::Step MessageClient::Impl::take_and_send() {
  const bool is_idle = !take_events();
  if (!shared->is_connected) {
    wire.reset();
    shared->changed.notify_all();
    return {};
  }
  const Deadline due = expire(Clock::now());
  const bool is_blocked = send_requests();
  return {is_idle ? due : Clock::now(), is_blocked};
}

// What is not known to go wrong is not tried again.
void MessageClient::Impl::fail(const std::string& reason) {
  lose(reason);
  give_up();
  wire.reset();
  if (turn.is_free()) turn.call();
}

void MessageClient::Impl::give_up() {
  is_over = true;
  end_all([&](const PendingRequest& one) { return shared->lost_error(one.options.what); });
}

// One attempt. Requests end at their deadlines meanwhile: see wait().
void MessageClient::Impl::reconnect(const std::stop_token& stop) {
  {
    std::unique_lock lock(shared->mutex);
    expire(Clock::now());
    shared->changed.notify_all();
    if (is_over) {
      const auto stopped = [&] { return stop.stop_requested(); };
      shared->changed.wait_for(lock, options.heartbeat, stopped);
      return;
    }
  }
  std::string why;
  bool refused = false;
  try {
    return resume(connect(options, id, waker, Clock::now() + kAttempt));
  } catch (const CommError& error) {
    why = error.what();
  } catch (const IoError& error) {
    why = error.what();
  } catch (const Error& error) {
    why = error.what();
    refused = true;
  } catch (const std::exception& error) {
    const std::lock_guard lock(shared->mutex);
    return fail(error.what());
  }
  const std::lock_guard lock(shared->mutex);
  shared->trouble = why;
  if (refused) give_up();
}

// What is unanswered goes again, under its old numbers.
void MessageClient::Impl::resume(std::unique_ptr<detail::MessageWire> fresh) {
  const std::lock_guard lock(shared->mutex);
  wire = std::move(fresh);
  shared->is_connected = true;
  shared->trouble.clear();
  assembler = detail::Assembler(options.longest_message);
  out = detail::SendQueue(wire->memory(0));
  for (auto& [number, one] : pending) {
    one->payload = detail::share(std::move(one->payload), wire->memory(0).get());
    push(*one);
  }
}

void MessageClient::Impl::lose(const std::string& reason) {
  shared->is_connected = false;
  shared->trouble = reason;
  if (!options.reconnects) give_up();
}

// True when there may be more.
bool MessageClient::Impl::take_events() {
  for (int i = 0; i < kFramesInTurn && shared->is_connected; ++i) {
    try {
      std::optional<WireEvent> event = wire->next(true);
      if (!event) return false;
      if (event->kind == WireEvent::Kind::frame)
        take_frame(std::move(event->frame));
      else
        lose(event->reason);
    } catch (const Corrupt& error) {
      lose(error.what());
    }
  }
  return true;
}

void MessageClient::Impl::take_frame(detail::Frame frame) {
  if (frame.header.kind == FrameHeader::Kind::hello) return;
  if (const auto message = assembler.feed(std::move(frame))) finish(*message);
}

void MessageClient::Impl::finish(const detail::Message& message) {
  const auto found = pending.find(message.header.message);
  if (found == pending.end()) return;
  PendingRequest& one = *found->second;
  const std::string& what = one.options.what;
  std::exception_ptr error;
  if (message.header.kind == FrameHeader::Kind::stale)
    error = std::make_exception_ptr(
        StaleGeneration(fmt::format("{}: {} is of generation {}, the request of {}", what,
                                    shared->at, message.header.generation, one.generation),
                        options.server.host, what, one.generation, message.header.generation));
  if (message.header.kind == FrameHeader::Kind::failed)
    error = std::make_exception_ptr(
        RequestFailed(fmt::format("{}: {}: {}", what, shared->at, message.payload.text()), -1,
                      options.server.host, what));
  one.reply = {message.header.generation, message.payload};
  end(one.number, error);
}

// True when there is more to send than there is room for.
bool MessageClient::Impl::send_requests() {
  while (!out.is_empty() && wire->send(0, out.front())) has_news |= out.pop().has_value();
  return !out.is_empty();
}

// When the next one will be due.
Deadline MessageClient::Impl::expire(Deadline now) {
  while (!deadlines.empty() && deadlines.begin()->first <= now) {
    const std::shared_ptr<PendingRequest> one = pending.at(deadlines.begin()->second);
    if (out.remove(one->place)) {
      FrameHeader header;
      header.kind = FrameHeader::Kind::cancel;
      header.message = one->number;
      // Before all else: what has begun and not ended has no end before it.
      out.push(header, {}, std::numeric_limits<int>::max());
    }
    end(one->number, shared->timeout_of(*one));
  }
  return deadlines.empty() ? now + options.heartbeat : deadlines.begin()->first;
}

bool PendingReply::is_done() const {
  const std::lock_guard lock(shared_->mutex);
  if (!request_->is_done && shared_->can_move()) shared_->mover->look();
  return request_->is_done;
}

Reply PendingReply::wait(const std::function<void()>& check_wait) {
  std::unique_lock lock(shared_->mutex);
  check(request_ != nullptr, "a reply is waited for once");
  const std::shared_ptr<detail::PendingRequest> one = std::exchange(request_, nullptr);
  std::optional<Meter::Wait> wait;
  if (!one->is_done) wait.emplace(shared_->meter.get(), one->options.what);
  // The client's own thread may be busy with a new connection.
  while (!one->is_done && Clock::now() < one->deadline) {
    const auto until =
        check_wait ? std::min<Deadline>(one->deadline, Clock::now() + kCheckWait) : one->deadline;
    shared_->await(lock, until, [&] { return one->is_done; });
    if (one->is_done || !check_wait) break;
    lock.unlock();
    check_wait();
    lock.lock();
  }
  if (!one->is_done) std::rethrow_exception(shared_->timeout_of(*one));
  if (one->error) std::rethrow_exception(one->error);
  return std::move(one->reply);
}

MessageClient::MessageClient(const MessageClientOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
MessageClient::~MessageClient() = default;

PendingReply MessageClient::request(Payload payload, const RequestOptions& options) {
  return impl_->request(std::move(payload), options);
}

Reply MessageClient::ask(Payload payload, const RequestOptions& options) {
  return request(std::move(payload), options).wait();
}

MessageBuffer MessageClient::allocate(std::size_t bytes) {
  return detail::allocate_in(impl_->memory().get(), bytes);
}

void MessageClient::set_generation(std::uint64_t generation) {
  const std::lock_guard lock(impl_->shared->mutex);
  impl_->generation = generation;
}

bool MessageClient::is_connected() const {
  const std::lock_guard lock(impl_->shared->mutex);
  return impl_->shared->is_connected;
}

const Endpoint& MessageClient::local() const { return impl_->local; }

std::uint64_t MessageClient::id() const { return impl_->id; }

void MessageClient::abort(const std::string& reason) { impl_->abort(reason); }

}  // namespace lockstep::comm
