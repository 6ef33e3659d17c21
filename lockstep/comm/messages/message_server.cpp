// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/messages/message_server.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "lockstep/comm/detail/assembler.h"
#include "lockstep/comm/detail/message_thread.h"
#include "lockstep/comm/detail/send_queue.h"
#include "lockstep/comm/detail/wire_turn.h"

namespace lockstep::comm {
namespace {

using detail::FrameHeader;
using detail::WireEvent;

constexpr auto kLastReplies = std::chrono::seconds(1);
constexpr auto kPause = std::chrono::milliseconds(5);
constexpr std::size_t kLongestKept = 64 << 10;   // of a reply, in case that it is asked for again
constexpr std::size_t kMostForgotten = 1 << 20;  // clients of which the last number is known
constexpr int kFramesInTurn = 256;               // before replies are looked at again

std::unique_ptr<detail::MessageWire> listen(const MessageServerOptions& options,
                                            const detail::Waker& waker) {
  return options.hub ? detail::listen_in_memory(options, waker)
                     : detail::listen_by_zmq(options, waker);
}

std::string forgotten_text(const MessageServerOptions& options) {
  return fmt::format(
      "it was asked before, and whether it was done is not known any more: this client was gone "
      "for "
      "longer than {:.1f} s",
      std::chrono::duration<double>(options.remember).count());
}

}  // namespace

// Whoever waits in receive() moves frames, and whoever replies sends them, if there is room. The
// rest is for a thread of the server's own.
struct MessageServer::Impl {
  struct Answer {
    FrameHeader::Kind kind = FrameHeader::Kind::request;  // not answered yet
    Payload payload = {};                                 // of a short reply
    bool is_kept = false;
  };
  struct Client {
    MessagePeer peer;
    bool reconnects = true;  // otherwise nothing is remembered for it
    std::uint64_t link = 0;  // 0: gone
    Deadline gone = {};
    std::uint64_t last_request = 0;  // the highest number
    std::uint64_t forgotten = 0;     // requests up to this one may have been done; nobody knows
    std::uint64_t first_open = 0;    // it has the answers to those before
    std::map<std::uint64_t, Answer> requests = {};
  };
  struct Link {
    std::uint64_t client;
    detail::Assembler assembler;
    detail::SendQueue out;
  };

  explicit Impl(const MessageServerOptions& given)
      : options(given),
        generation(given.generation),
        wire(listen(options, waker)),
        endpoint(wire->endpoint()) {
    if (options.serves_at_once) start();
  }
  ~Impl() {
    if (!thread.joinable()) return;
    {
      const std::lock_guard lock(mutex);
      thread.request_stop();
      turn.call();
    }
    waker.wake();
    thread.join();
  }

  void start() {
    std::call_once(started, [this] {
      thread = detail::start_message_thread("message server",
                                            [this](const std::stop_token& stop) { run(stop); });
    });
  }

  void run(const std::stop_token& stop);
  bool move_on(std::unique_lock<std::mutex>& lock, Deadline until,
               const std::function<bool()>& is_done);
  void await_event(std::unique_lock<std::mutex>& lock, Deadline deadline);
  void move_until(std::unique_lock<std::mutex>& lock, Deadline deadline,
                  const std::function<bool()>& is_done);
  // Whoever moves frames has something else to do.
  void call_mover() { turn.is_free() ? turn.call() : waker.wake(); }
  bool is_stuck() const;
  void send_the_last();
  void abort(const std::string& reason);
  void abort_locked(const std::string& reason);
  bool take_events();
  bool send_replies();
  bool send_at_once(std::uint64_t number, Link& link);
  std::shared_ptr<detail::MessageMemory> memory_for(std::uint64_t peer) const;
  bool has_room() const {
    return waiting_bytes < options.most_waiting_bytes && waiting < options.most_waiting;
  }
  void forget_the_gone(Deadline now);
  bool is_forgettable(const Client& client, Deadline now) const;
  void take(WireEvent event);
  void open(const WireEvent& event);
  void close(std::uint64_t link, MessageEvent::Kind kind, const std::string& reason);
  void tell(std::uint64_t link, MessageEvent::Kind kind, const std::string& reason);
  void take_frame(std::uint64_t link, detail::Frame frame);
  void take_request(Link& link, detail::Message message);
  bool answer_again(Link& link, const FrameHeader& header, const Answer& answer);
  bool is_stale(std::uint64_t of_request) const {
    return of_request != generation && of_request != kAnyGeneration;
  }
  void refuse_stale(const MessageEvent& request);
  void put(MessageEvent event);
  MessageEvent take_first();
  void answer(const MessageEvent& request, FrameHeader::Kind kind, Payload payload, int priority);
  void send(Link& link, FrameHeader::Kind kind, std::uint64_t request, Payload payload,
            int priority);

  MessageServerOptions options;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t generation;  // all below is guarded by the mutex, but for the wire
  std::deque<MessageEvent> events;
  int receivers = 0;                           // threads that wait for an event
  std::size_t waiting = 0, waiting_bytes = 0;  // requests
  std::map<std::uint64_t, Link> links;
  std::map<std::uint64_t, Client> clients;
  std::map<std::uint64_t, std::uint64_t> forgotten;  // clients, with their last requests' numbers
  std::vector<std::uint64_t> dropped;                // clients
  std::optional<std::string> aborted;
  detail::WireTurn turn;
  detail::Waker waker;
  std::unique_ptr<detail::MessageWire> wire;
  Endpoint endpoint;
  std::once_flag started;
  std::jthread thread;
};

// Those who receive move frames themselves; while nobody does, the server's own thread. It makes
// way for those whom it has something for: they are likely to come again.
void MessageServer::Impl::run(const std::stop_token& stop) {
  try {
    std::unique_lock lock(mutex);
    const auto has_news = [&] { return receivers > 0 && !events.empty(); };
    while (turn.await(lock, [&] { return stop.stop_requested(); })) {
      if (!move_on(lock, Deadline::max(), has_news)) continue;
      if (!is_stuck()) turn.leave();
      // Not before: whoever wakes up wants the mutex.
      lock.unlock();
      changed.notify_all();
      lock.lock();
    }
    lock.unlock();
    send_the_last();
  } catch (const std::exception& error) {
    abort(error.what());
  }
}

void MessageServer::Impl::send_the_last() {
  const Deadline end = Clock::now() + kLastReplies;
  for (bool is_blocked = true; is_blocked && Clock::now() < end;) {
    const std::lock_guard lock(mutex);
    is_blocked = send_replies();
    if (is_blocked) wire->sleep(Clock::now() + kPause, false, true);
  }
}

// Takes what has come, sends what waits, and sleeps until there is more, if it is not done. True
// when it is.
bool MessageServer::Impl::move_on(std::unique_lock<std::mutex>& lock, Deadline until,
                                  const std::function<bool()>& is_done) {
  const bool is_idle = !take_events();
  const bool is_blocked = send_replies();
  forget_the_gone(Clock::now());
  if (is_done()) return true;
  const bool takes = has_room();
  until = is_idle ? std::min<Deadline>(until, Clock::now() + options.heartbeat) : Clock::now();
  lock.unlock();
  wire->sleep(until, takes, is_blocked);
  lock.lock();
  return false;
}

void MessageServer::Impl::move_until(std::unique_lock<std::mutex>& lock, Deadline deadline,
                                     const std::function<bool()>& is_done) {
  turn.take();
  try {
    while (!move_on(lock, deadline, is_done) && Clock::now() < deadline) {
    }
  } catch (const std::exception& error) {
    if (!lock.owns_lock()) lock.lock();
    abort_locked(error.what());
  }
  turn.leave();
  if (is_stuck()) turn.call();
}

// As the one who moves frames, if nobody else does.
void MessageServer::Impl::await_event(std::unique_lock<std::mutex>& lock, Deadline deadline) {
  const auto is_done = [&] { return aborted || !events.empty(); };
  ++receivers;
  while (!is_done() && Clock::now() < deadline)
    if (turn.is_free())
      move_until(lock, deadline, is_done);
    else
      changed.wait_until(lock, deadline, [&] { return is_done() || turn.is_free(); });
  --receivers;
  // Somebody else moves on, and whoever is to have what else has come takes it.
  for (std::size_t i = std::min<std::size_t>(receivers, std::max<std::size_t>(events.size(), 1));
       i > 0; --i)
    changed.notify_one();
}

bool MessageServer::Impl::is_stuck() const {
  const auto waits = [](const auto& one) { return !one.second.out.is_empty(); };
  return wire->has_rest() || std::any_of(links.begin(), links.end(), waits);
}

void MessageServer::Impl::abort(const std::string& reason) {
  const std::lock_guard lock(mutex);
  abort_locked(reason);
}

void MessageServer::Impl::abort_locked(const std::string& reason) {
  if (!aborted) aborted = reason;
  changed.notify_all();
  waker.wake();
}

// True when there may be more.
bool MessageServer::Impl::take_events() {
  for (const std::uint64_t client : std::exchange(dropped, {}))
    if (const auto found = clients.find(client); found != clients.end() && found->second.link > 0) {
      const std::uint64_t link = found->second.link;
      wire->close(link);
      close(link, MessageEvent::Kind::lost, "the server closed its connection");
    }
  for (int i = 0; i < kFramesInTurn; ++i) {
    std::optional<WireEvent> event = wire->next(has_room());
    if (!event) return false;
    take(std::move(*event));
  }
  return true;
}

void MessageServer::Impl::take(WireEvent event) {
  switch (event.kind) {
    case WireEvent::Kind::opened: return open(event);
    case WireEvent::Kind::frame: return take_frame(event.link, std::move(event.frame));
    case WireEvent::Kind::left: return close(event.link, MessageEvent::Kind::left, event.reason);
    case WireEvent::Kind::lost: return close(event.link, MessageEvent::Kind::lost, event.reason);
    case WireEvent::Kind::silent:
      if (options.drops_silent) return close(event.link, MessageEvent::Kind::silent, event.reason);
      return tell(event.link, MessageEvent::Kind::silent, event.reason);
    case WireEvent::Kind::heard: return tell(event.link, MessageEvent::Kind::heard, event.reason);
  }
}

// Of a link that stays.
void MessageServer::Impl::tell(std::uint64_t link, MessageEvent::Kind kind,
                               const std::string& reason) {
  if (const auto found = links.find(link); found != links.end())
    put({kind, clients.at(found->second.client).peer, reason});
}

// A client that comes again before its old connection is known to be gone.
void MessageServer::Impl::open(const WireEvent& event) {
  const auto known = clients.find(event.peer.id);
  if (const std::uint64_t old = known == clients.end() ? 0 : known->second.link; old > 0) {
    wire->close(old);
    close(old, MessageEvent::Kind::lost, "it connected again");
  }
  Client& client = clients[event.peer.id];
  if (const auto found = forgotten.find(event.peer.id); found != forgotten.end()) {
    client.last_request = client.forgotten = found->second;
    forgotten.erase(found);
  }
  client.peer = event.peer;
  client.reconnects = event.reconnects;
  client.link = event.link;
  links.emplace(event.link, Link{event.peer.id, detail::Assembler(options.longest_message),
                                 detail::SendQueue(wire->memory(event.link))});
  put({MessageEvent::Kind::connected, event.peer});
}

void MessageServer::Impl::close(std::uint64_t link, MessageEvent::Kind kind,
                                const std::string& reason) {
  const auto found = links.find(link);
  if (found == links.end()) return;
  Client& client = clients.at(found->second.client);
  links.erase(found);
  client.link = 0;
  client.gone = Clock::now();
  put({kind, client.peer, reason});
  if (kind != MessageEvent::Kind::left && client.reconnects) return;
  const std::uint64_t id = client.peer.id;
  clients.erase(id);
}

bool MessageServer::Impl::is_forgettable(const Client& client, Deadline now) const {
  const auto is_open = [](const auto& one) {
    return one.second.kind == FrameHeader::Kind::request;
  };
  return client.link == 0 && now - client.gone > options.remember &&
         std::none_of(client.requests.begin(), client.requests.end(), is_open);
}

void MessageServer::Impl::forget_the_gone(Deadline now) {
  std::erase_if(clients, [&](const auto& one) {
    if (!is_forgettable(one.second, now)) return false;
    if (one.second.last_request > 0) forgotten[one.first] = one.second.last_request;
    return true;
  });
  while (forgotten.size() > kMostForgotten) forgotten.erase(forgotten.begin());
}

void MessageServer::Impl::take_frame(std::uint64_t number, detail::Frame frame) {
  const auto link = links.find(number);
  if (link == links.end()) return;
  if (frame.header.kind == FrameHeader::Kind::cancel)
    return link->second.assembler.cancel(frame.header.message);
  try {
    if (frame.header.kind != FrameHeader::Kind::request) throw Corrupt("no request");
    if (auto message = link->second.assembler.feed(std::move(frame)))
      take_request(link->second, std::move(*message));
  } catch (const Corrupt& error) {
    wire->close(number);
    close(number, MessageEvent::Kind::lost, error.what());
  }
}

void MessageServer::Impl::take_request(Link& link, detail::Message message) {
  const FrameHeader& header = message.header;
  Client& client = clients.at(link.client);
  client.first_open = std::max(client.first_open, header.first_open);
  client.requests.erase(client.requests.begin(), client.requests.lower_bound(client.first_open));
  if (header.message < client.first_open) return;  // a late copy of it
  const auto known = client.requests.find(header.message);
  const bool is_new = known == client.requests.end();
  // What one that does not come back has asked twice, something on the way has doubled.
  if (!is_new && (!client.reconnects || answer_again(link, header, known->second))) return;
  if (is_new && header.message <= client.forgotten)
    return send(link, FrameHeader::Kind::failed, header.message, Payload(forgotten_text(options)),
                0);
  if (is_new && is_stale(header.generation))
    return send(link, FrameHeader::Kind::stale, header.message, {}, 0);
  client.last_request = std::max(client.last_request, header.message);
  client.requests[header.message] = {};
  MessageEvent event{MessageEvent::Kind::request, client.peer, {}, header.message, header.topic};
  event.generation = header.generation;
  event.is_repeated = !is_new;
  event.payload = std::move(message.payload);
  put(std::move(event));
}

// False: the answer is not here any more.
bool MessageServer::Impl::answer_again(Link& link, const FrameHeader& header,
                                       const Answer& answer) {
  if (answer.kind == FrameHeader::Kind::request) return true;  // it will be answered once
  if (link.out.contains(header.message)) return true;          // it is on its way
  if (!answer.is_kept) return false;
  send(link, answer.kind, header.message, answer.payload, 0);
  return true;
}

void MessageServer::Impl::put(MessageEvent event) {
  if (event.kind == MessageEvent::Kind::request) ++waiting;
  waiting_bytes += event.payload.size();
  events.push_back(std::move(event));
}

MessageEvent MessageServer::Impl::take_first() {
  const bool was_full = !has_room();
  MessageEvent event = std::move(events.front());
  events.pop_front();
  if (event.kind == MessageEvent::Kind::request) --waiting;
  waiting_bytes -= event.payload.size();
  if (was_full && has_room()) call_mover();
  return event;
}

// The generation has changed while it waited: it has not been done, and is not remembered.
void MessageServer::Impl::refuse_stale(const MessageEvent& request) {
  const auto client = clients.find(request.peer.id);
  if (client == clients.end()) return;
  client->second.requests.erase(request.request);
  const auto link = links.find(client->second.link);
  if (link == links.end()) return;
  send(link->second, FrameHeader::Kind::stale, request.request, {}, 0);
  if (!send_at_once(link->first, link->second)) call_mover();
}

void MessageServer::Impl::send(Link& link, FrameHeader::Kind kind, std::uint64_t request,
                               Payload payload, int priority) {
  FrameHeader header;
  header.kind = kind;
  header.message = request;
  header.generation = generation;
  link.out.push(header, std::move(payload), priority);
}

void MessageServer::Impl::answer(const MessageEvent& request, FrameHeader::Kind kind,
                                 Payload payload, int priority) {
  check(request.kind == MessageEvent::Kind::request, "only requests are answered");
  if (payload.size() > options.longest_message)
    throw InvalidArgument("reply: {} bytes, expected at most {}", payload.size(),
                          options.longest_message);
  // Here, where it holds up nobody else.
  Payload shared = detail::share(payload, memory_for(request.peer.id).get());
  const std::lock_guard lock(mutex);
  const auto client = clients.find(request.peer.id);
  if (client == clients.end()) return;
  const auto place = client->second.requests.find(request.request);
  // Answered by somebody else, or nobody waits for it any more.
  if (place == client->second.requests.end() || place->second.kind != FrameHeader::Kind::request)
    return;
  if (client->second.link == 0) client->second.gone = Clock::now();
  place->second.kind = kind;
  place->second.is_kept = client->second.reconnects && payload.size() <= kLongestKept;
  if (place->second.is_kept) place->second.payload = payload;
  const auto link = links.find(client->second.link);
  if (link == links.end()) return;
  send(link->second, kind, request.request, std::move(shared), priority);
  if (!send_at_once(link->first, link->second)) call_mover();
}

std::shared_ptr<detail::MessageMemory> MessageServer::Impl::memory_for(std::uint64_t peer) const {
  const std::lock_guard lock(mutex);
  const auto client = clients.find(peer);
  return client == clients.end() ? nullptr : wire->memory(client->second.link);
}

// Where it is nobody's turn, or the wire can nevertheless. False when there is more than that took.
bool MessageServer::Impl::send_at_once(std::uint64_t number, Link& link) try {
  const bool is_free = turn.is_free();
  const auto send_front = [&] {
    const detail::Frame frame = link.out.front();
    return is_free ? wire->send(number, frame) : wire->send_now(number, frame);
  };
  while (!link.out.is_empty() && send_front()) link.out.pop();
  return link.out.is_empty() && !(is_free && wire->has_rest());
} catch (const std::exception& error) {
  abort_locked(error.what());
  return true;
}

// True when there is more to send than there is room for.
bool MessageServer::Impl::send_replies() {
  bool is_blocked = false;
  for (auto& [number, link] : links) {
    while (!link.out.is_empty() && wire->send(number, link.out.front())) link.out.pop();
    is_blocked = is_blocked || !link.out.is_empty();
  }
  return is_blocked;
}

MessageServer::MessageServer(const MessageServerOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
MessageServer::~MessageServer() = default;

Endpoint MessageServer::endpoint() const { return impl_->endpoint; }

std::optional<MessageEvent> MessageServer::receive(Deadline deadline) {
  impl_->start();
  std::unique_lock lock(impl_->mutex);
  while (true) {
    impl_->await_event(lock, deadline);
    if (impl_->aborted)
      throw Aborted(fmt::format("receive: aborted: {}", *impl_->aborted), -1, "", "receive");
    if (impl_->events.empty()) return std::nullopt;
    MessageEvent event = impl_->take_first();
    const bool is_request = event.kind == MessageEvent::Kind::request && !event.is_repeated;
    if (!is_request || !impl_->is_stale(event.generation)) return event;
    impl_->refuse_stale(event);
  }
}

void MessageServer::reply(const MessageEvent& request, Payload payload, int priority) {
  impl_->answer(request, FrameHeader::Kind::reply, std::move(payload), priority);
}

void MessageServer::fail(const MessageEvent& request, const std::string& text) {
  impl_->answer(request, FrameHeader::Kind::failed, Payload(text), 0);
}

MessageBuffer MessageServer::allocate(std::uint64_t peer, std::size_t bytes) {
  return detail::allocate_in(impl_->memory_for(peer).get(), bytes);
}

void MessageServer::set_generation(std::uint64_t generation) {
  const std::lock_guard lock(impl_->mutex);
  impl_->generation = generation;
}

std::uint64_t MessageServer::generation() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->generation;
}

std::vector<MessagePeer> MessageServer::peers() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<MessagePeer> peers;
  for (const auto& [id, client] : impl_->clients)
    if (client.link > 0) peers.push_back(client.peer);
  return peers;
}

void MessageServer::drop(std::uint64_t peer) {
  const std::lock_guard lock(impl_->mutex);
  impl_->dropped.push_back(peer);
  impl_->call_mover();
}

RefusalLog& MessageServer::refusals() { return *impl_->wire->refusals(); }

void MessageServer::abort(const std::string& reason) { impl_->abort(reason); }

}  // namespace lockstep::comm
