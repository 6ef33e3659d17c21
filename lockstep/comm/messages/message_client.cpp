// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/messages/message_client.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "lockstep/base/hmac.h"
#include "lockstep/comm/detail/assembler.h"
#include "lockstep/comm/detail/message_thread.h"
#include "lockstep/comm/detail/send_queue.h"
#include "lockstep/comm/meter.h"

namespace lockstep::comm {
namespace {

constexpr auto kCheckWait = std::chrono::milliseconds(10);

}  // namespace

namespace detail {

struct PendingRequest {
  std::uint64_t number = 0;
  RequestOptions options = {};
  std::uint64_t generation = 0;
  Payload payload = {};  // until it is answered, in case that it is sent again
  Deadline begin = {}, deadline = {};
  SendQueue::Place place = {};
  bool is_done = false;
  Reply reply = {};
  std::exception_ptr error = nullptr;
};

struct ClientShared {
  explicit ClientShared(const MessageClientOptions& options)
      : host(options.server.host), at(to_string(options.server)), meter(options.meter) {}

  std::exception_ptr timeout_of(const PendingRequest& one) const;
  std::exception_ptr lost_error(const std::string& what) const;
  std::exception_ptr aborted_error(const std::string& what) const;

  const std::string host, at;
  const std::shared_ptr<Meter> meter;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> aborted;  // guarded by the mutex, as all below
  std::string trouble;                 // why there is no connection now
  bool is_connected = true;
};

std::exception_ptr ClientShared::timeout_of(const PendingRequest& one) const {
  const std::chrono::duration<double> waited = Clock::now() - one.begin;
  std::string text =
      fmt::format("{}: {} did not answer within {:.1f} s", one.options.what, at, waited.count());
  if (!is_connected) text += "; no connection: " + trouble;
  return std::make_exception_ptr(Timeout(text, -1, host, one.options.what));
}

std::exception_ptr ClientShared::lost_error(const std::string& what) const {
  return std::make_exception_ptr(
      PeerLost(fmt::format("{}: {} was lost: {}", what, at, trouble), -1, host, what));
}

std::exception_ptr ClientShared::aborted_error(const std::string& what) const {
  return std::make_exception_ptr(
      Aborted(fmt::format("{}: {}: aborted: {}", what, at, *aborted), -1, host, what));
}

}  // namespace detail

namespace {

using detail::FrameHeader;
using detail::PendingRequest;
using detail::WireEvent;

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

// One thread moves frames; whoever asks puts requests into a queue and wakes it.
struct MessageClient::Impl {
  explicit Impl(const MessageClientOptions& given)
      : options(given),
        generation(given.generation),
        assembler(given.longest_message),
        wire(connect(options, id, waker, Clock::now() + given.connect_timeout)),
        out(wire->memory(0)),
        local(wire->local()),
        thread(detail::start_message_thread("message client",
                                            [this](const std::stop_token& stop) { run(stop); })) {}
  ~Impl() {
    leaves = !abort("the client is closed");
    thread.request_stop();
    waker.wake();
    shared->changed.notify_all();
    thread.join();
  }

  // False when this is the first time.
  bool abort(const std::string& reason);
  PendingReply request(Payload payload, const RequestOptions& request);
  std::shared_ptr<detail::MessageMemory> memory() const;
  bool has_room(std::size_t bytes) const;

  void run(const std::stop_token& stop);
  void move_on();
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
  detail::Waker waker;
  // The thread's; it comes and goes under the mutex.
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
  const bool in_time = shared->changed.wait_until(lock, one->deadline, goes_on);
  if (shared->aborted) std::rethrow_exception(shared->aborted_error(request.what));
  if (is_over) std::rethrow_exception(shared->lost_error(request.what));
  if (!in_time) std::rethrow_exception(shared->timeout_of(*one));
  one->number = next_number++;
  one->generation = request.generation.value_or(generation);
  pending.emplace(one->number, one);
  deadlines.emplace(one->deadline, one->number);
  push(*one);
  if (shared->meter) shared->meter->add_sent(bytes);
  if (!send_at_once()) waker.wake();
  PendingReply reply;
  reply.shared_ = shared;
  reply.request_ = std::move(one);
  return reply;
}

std::shared_ptr<detail::MessageMemory> MessageClient::Impl::memory() const {
  const std::lock_guard lock(shared->mutex);
  return wire ? wire->memory(0) : nullptr;
}

// Where the wire can, without a turn of its thread. False when there is more than that took.
bool MessageClient::Impl::send_at_once() {
  while (wire && !out.is_empty() && wire->send_now(0, out.front())) out.pop();
  return out.is_empty();
}

void MessageClient::Impl::run(const std::stop_token& stop) {
  try {
    while (!stop.stop_requested()) wire ? move_on() : reconnect(stop);
    if (wire && leaves) wire->say_goodbye();
  } catch (const std::exception& error) {
    const std::lock_guard lock(shared->mutex);
    lose(error.what());
    give_up();
  }
}

void MessageClient::Impl::move_on() {
  bool is_blocked = false, is_idle = true, tells = false;
  Deadline until;
  {
    const std::lock_guard lock(shared->mutex);
    is_idle = !take_events();
    if (!shared->is_connected) {
      wire.reset();
      return shared->changed.notify_all();
    }
    until = expire(Clock::now());
    is_blocked = send_requests();
    tells = std::exchange(has_news, false);
  }
  // Not before: whoever wakes up wants the mutex.
  if (tells) shared->changed.notify_all();
  wire->sleep(is_idle ? until : Clock::now(), true, is_blocked);
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
    if (shared_->changed.wait_until(lock, until, [&] { return one->is_done; }) || !check_wait)
      break;
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
