// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "lockstep/base/hmac.h"
#include "lockstep/comm/detail/brief_spin.h"
#include "lockstep/comm/detail/control_link.h"
#include "lockstep/comm/detail/local_rendezvous.h"
#include "lockstep/comm/detail/zmq_authenticator.h"
#include "lockstep/comm/detail/zmq_bind.h"
#include "lockstep/comm/detail/zmq_context.h"
#include "lockstep/comm/detail/zmq_interrupts.h"
#include "lockstep/comm/detail/zmq_message_socket.h"
#include "lockstep/comm/detail/zmq_refusals.h"

namespace lockstep::comm::detail {
namespace {

constexpr int kLinger = 1000;  // milliseconds for the last replies to leave
// A ROUTER does not say which of its peers has room again; a local link does, to one who reads.
constexpr auto kRetry = std::chrono::milliseconds(2);

// Tickets are text: ZeroMQ takes them as user names.
std::string make_ticket() { return make_secret().substr(0, 32); }

class ZmqServerWire final : public MessageWire {
 public:
  ZmqServerWire(const MessageServerOptions& options, const Waker& waker)
      : options_(options),
        waker_(waker),
        listener_(options.listen, options.secret, options.handshake_timeout, options.ports),
        endpoint_(listener_.endpoint()),
        authenticator_(context_),
        router_(make_message_socket(context_, zmq::socket_type::router, endpoint_.host, options)),
        refusals_(context_, router_, listener_.refusals()) {
    router_.set(zmq::sockopt::router_mandatory, true);
    router_.set(zmq::sockopt::linger, kLinger);
    router_.set(zmq::sockopt::zap_domain, "lockstep");
    router_.set(zmq::sockopt::handshake_ivl, static_cast<int>(options.handshake_timeout.count()));
    secure();
    bind();
    router_fd_ = router_.get(zmq::sockopt::fd);
    authenticator_fd_ = authenticator_.socket().get(zmq::sockopt::fd);
    refusals_fd_ = refusals_.socket().get(zmq::sockopt::fd);
    if (options.shared_memory > 0) local_listener_.emplace(options.handshake_timeout);
  }
  // The replies leave before the clients hear that the server does.
  ~ZmqServerWire() override {
    send_rests();
    authenticator_.socket().close();
    refusals_.close();
    router_.close();
    context_.close();
    for (auto& [number, link] : links_) link.control.say_goodbye();
  }

  std::optional<WireEvent> next(bool wants_frames) override;
  bool send(std::uint64_t link, const Frame& frame) override;
  bool send_now(std::uint64_t link, const Frame& frame) override;
  bool has_rest() const override;
  std::shared_ptr<MessageMemory> memory(std::uint64_t link) const override;
  void close(std::uint64_t link) override { forget(link); }
  void sleep(Deadline until, bool wants_frames, bool is_blocked) override;
  Endpoint endpoint() const override { return endpoint_; }
  Endpoint local() const override { return endpoint_; }
  RefusalLog* refusals() override { return &listener_.refusals(); }

 private:
  struct Link {
    ControlLink control;
    std::string ticket;
    Deadline greeted_by;  // or it is forgotten, and nobody can come in its name
    std::string client_key = {};
    bool is_open = false, is_greeted = false, is_silent = false, has_spoken = false;
    std::unique_ptr<LocalLink> local = nullptr;  // in place of the router, for one of this host
    bool is_listed = false;                      // among the readable ones
  };
  void secure();
  void bind();
  void accept();
  void accept_local();
  void look_at_links();
  void read_controls();
  void look_at(std::uint64_t number, Link& link);
  void tell(std::uint64_t number, WireEvent::Kind kind, const std::string& reason);
  bool open(std::uint64_t number, Link& link);
  void greet(Link& link);
  void end(std::uint64_t number, WireEvent::Kind kind, const std::string& reason);
  void forget(std::uint64_t number);
  std::optional<WireEvent> take_frame();
  std::optional<WireEvent> take_local_frame();
  std::optional<Frame> receive_locally(std::uint64_t number, Link& link);
  WireEvent lose(std::uint64_t number, const std::string& reason);
  void send_rests();
  void watch_links(std::vector<pollfd>& watched, bool wants_frames) const;
  void look_after_sending();
  void note_local(std::uint64_t number, Link& link, short events);

  MessageServerOptions options_;
  const Waker& waker_;
  AuthenticatedListener listener_;
  Endpoint endpoint_;
  zmq::context_t context_ = make_zmq_context();
  ZmqAuthenticator authenticator_;
  zmq::socket_t router_;
  ZmqRefusals refusals_;
  std::string public_key_;
  std::uint16_t data_port_ = 0;
  std::map<std::uint64_t, Link> links_;
  std::map<std::string, std::uint64_t> by_ticket_;
  std::optional<LocalListener> local_listener_;
  std::deque<std::uint64_t> readable_;  // links whose local connections have something
  bool has_writable_ = false;           // a local link has room for the rest of a frame
  bool is_router_full_ = false;
  std::deque<WireEvent> events_;
  std::uint64_t last_link_ = 0;
  Deadline next_look_ = {};
  int router_fd_ = -1, authenticator_fd_ = -1, refusals_fd_ = -1;
  bool has_unread_ = true;  // the router may have a frame
  bool has_sent_ = false;   // through the router, since the last sleep
  BriefSpin spin_;
};

void ZmqServerWire::secure() {
  if (!options_.encrypted) return router_.set(zmq::sockopt::plain_server, true);
  const CurveKeys keys;
  public_key_ = keys.open;
  router_.set(zmq::sockopt::curve_server, true);
  router_.set(zmq::sockopt::curve_publickey, keys.open);
  router_.set(zmq::sockopt::curve_secretkey, keys.secret);
}

// Beside the port that was asked for, so that one who opens ports to the outside knows which.
void ZmqServerWire::bind() {
  const auto at = [&](int port) {
    return "tcp://" + to_string(Endpoint{endpoint_.host, static_cast<std::uint16_t>(port)});
  };
  const int next = options_.listen.port == 0 || endpoint_.port == 65535 ? 0 : endpoint_.port + 1;
  if (next == 0 || ::zmq_bind(router_.handle(), at(next).c_str()) != 0)
    bind_in(router_, endpoint_.host, options_.ports);
  const std::string bound = router_.get(zmq::sockopt::last_endpoint);
  data_port_ = parse_endpoint(std::string_view(bound.c_str()).substr(6)).port;
}

void ZmqServerWire::accept() {
  for (AuthenticatedConnection& connection : listener_.accept()) {
    Link link{{std::move(connection), options_.heartbeat, options_.silence},
              make_ticket(),
              Clock::now() + options_.handshake_timeout};
    MessageWelcome welcome{data_port_, options_.encrypted, link.ticket, public_key_,
                           options_.heartbeat};
    if (local_listener_ && !local_listener_->name().empty()) {
      welcome.local_name = local_listener_->name();
      welcome.local_bytes = options_.shared_memory;
    }
    link.control.send_signed(to_bytes(welcome));
    links_.emplace(++last_link_, std::move(link));
  }
}

// A client of this host, before it says that it shares its memory. Whoever has no proof that it is
// one is sent away, and nothing of it is looked at.
void ZmqServerWire::accept_local() {
  if (!local_listener_) return;
  for (LocalVisitor& visitor : local_listener_->accept())
    for (auto& [number, link] : links_)
      if (!link.is_open && !link.local && same_secret(visitor.ticket, link.ticket) &&
          same_secret(visitor.proof, link.control.proof(kClientMemory))) {
        link.local = welcome_locally(std::move(visitor), link.control.proof(kServerMemory),
                                     options_.shared_memory);
        break;
      }
}

// True when the client has said what it has to.
bool ZmqServerWire::open(std::uint64_t number, Link& link) {
  const auto bytes = link.control.take_signed(kAnswerBytes);
  if (!bytes) return false;
  const MessageAnswer answer = to_answer(*bytes);
  if (answer.is_local && !link.local) throw Corrupt("it shares no memory, and says that it does");
  if (!answer.is_local) link.local.reset();
  link.client_key = answer.client_key;
  if (link.local)
    link.is_greeted = link.local->send(Frame{});
  else if (options_.encrypted)
    authenticator_.admit_key(link.client_key);
  else
    authenticator_.admit_user(link.ticket);
  link.is_open = true;
  link.control.start_heartbeats(options_.heartbeat);
  by_ticket_[link.ticket] = number;
  events_.push_back({WireEvent::Kind::opened,
                     number,
                     {link.control.label(), answer.name, link.control.from()},
                     answer.reconnects});
  return true;
}

void ZmqServerWire::look_at(std::uint64_t number, Link& link) {
  try {
    if (!link.is_open && open(number, link)) return;
  } catch (const Corrupt& error) {
    return end(number, WireEvent::Kind::lost, error.what());
  }
  ControlLink::State state = link.control.look();
  if (state == ControlLink::State::open && link.local && link.local->is_closed())
    state = ControlLink::State::lost;
  if (!link.is_greeted && Clock::now() >= link.greeted_by)
    return end(number, WireEvent::Kind::lost, "its data connection did not come in time");
  const bool is_silent = state == ControlLink::State::silent;
  const bool stays = state == ControlLink::State::open || (is_silent && !options_.drops_silent);
  if (stays && link.is_open && std::exchange(link.is_silent, is_silent) != is_silent)
    tell(number, is_silent ? WireEvent::Kind::silent : WireEvent::Kind::heard,
         is_silent ? link.control.reason(state) : "");
  if (stays) return;
  auto kind = WireEvent::Kind::lost;
  if (state == ControlLink::State::left) kind = WireEvent::Kind::left;
  if (state == ControlLink::State::silent) kind = WireEvent::Kind::silent;
  end(number, kind, link.control.reason(state));
}

void ZmqServerWire::end(std::uint64_t number, WireEvent::Kind kind, const std::string& reason) {
  if (links_.at(number).is_open) tell(number, kind, reason);
  forget(number);
}

void ZmqServerWire::tell(std::uint64_t number, WireEvent::Kind kind, const std::string& reason) {
  WireEvent event{kind, number};
  event.reason = reason;
  events_.push_back(std::move(event));
}

void ZmqServerWire::forget(std::uint64_t number) {
  const auto link = links_.find(number);
  if (link == links_.end()) return;
  by_ticket_.erase(link->second.ticket);
  authenticator_.forget_user(link->second.ticket);
  authenticator_.forget_key(link->second.client_key);
  links_.erase(link);
}

void ZmqServerWire::read_controls() {
  for (auto place = links_.begin(); place != links_.end();) {
    const auto link = place++;
    look_at(link->first, link->second);
  }
}

void ZmqServerWire::look_at_links() {
  accept();
  accept_local();
  next_look_ = std::min<Deadline>(Clock::now() + options_.heartbeat, listener_.next_deadline());
  if (local_listener_) next_look_ = std::min(next_look_, local_listener_->next_deadline());
  read_controls();
  authenticator_.answer([this] { read_controls(); });
  refusals_.look();
  for (auto& [number, link] : links_) {
    if (link.is_open && !link.is_greeted) greet(link);
    next_look_ = std::min(next_look_, link.control.next_look());
    if (!link.is_greeted) next_look_ = std::min(next_look_, link.greeted_by);
  }
}

std::optional<WireEvent> ZmqServerWire::next(bool wants_frames) {
  if (Clock::now() >= next_look_) look_at_links();
  if (!events_.empty()) {
    WireEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  if (std::exchange(has_writable_, false))
    for (auto& [number, link] : links_)
      if (link.local && link.local->has_rest()) link.local->send_rest();
  if (!wants_frames) return std::nullopt;
  auto event = take_local_frame();
  return event ? std::move(event) : take_frame();
}

WireEvent ZmqServerWire::lose(std::uint64_t number, const std::string& reason) {
  forget(number);
  WireEvent lost{WireEvent::Kind::lost, number};
  lost.reason = reason;
  return lost;
}

// The links take turns, frame by frame.
std::optional<WireEvent> ZmqServerWire::take_local_frame() {
  while (!readable_.empty()) {
    const std::uint64_t number = readable_.front();
    readable_.pop_front();
    const auto link = links_.find(number);
    if (link == links_.end() || !link->second.is_open) continue;
    WireEvent event{WireEvent::Kind::frame, number};
    try {
      auto frame = receive_locally(number, link->second);
      if (!frame) continue;
      event.frame = std::move(*frame);
    } catch (const Corrupt& error) {
      return lose(number, error.what());
    }
    return event;
  }
  return std::nullopt;
}

std::optional<Frame> ZmqServerWire::receive_locally(std::uint64_t number, Link& link) {
  auto frame = link.local->receive();
  link.is_listed = frame.has_value();
  if (frame) readable_.push_back(number);
  if (link.local->is_closed()) next_look_ = {};
  return frame;
}

// What comes of a link that is gone is dropped.
std::optional<WireEvent> ZmqServerWire::take_frame() {
  if (!has_unread_) return std::nullopt;
  zmq::message_t routing, header;
  while (uninterrupted([&] { return router_.recv(routing, zmq::recv_flags::dontwait); })) {
    header.rebuild();
    if (router_.get(zmq::sockopt::rcvmore)) receive_rest(router_, header);
    const auto link = by_ticket_.find(routing.to_string());
    WireEvent event;
    try {
      event.frame = receive_frame(router_, header);
    } catch (const Corrupt& error) {
      if (link == by_ticket_.end()) continue;
      return lose(link->second, error.what());
    }
    if (link == by_ticket_.end()) continue;
    event.link = link->second;
    if (!std::exchange(links_.at(event.link).has_spoken, true))
      refusals_.take_first_message(header);
    return event;
  }
  has_unread_ = false;
  return std::nullopt;
}

// As soon as its data connection is there, also while nothing is read.
void ZmqServerWire::greet(Link& link) {
  has_sent_ = true;
  try {
    link.is_greeted = send_frame(router_, link.ticket, Frame{});
  } catch (const zmq::error_t& error) {
    if (error.num() != EHOSTUNREACH) throw;
    next_look_ = std::min<Deadline>(next_look_, Clock::now() + kRetry);
  }
}

bool ZmqServerWire::send(std::uint64_t number, const Frame& frame) {
  const auto link = links_.find(number);
  if (link == links_.end()) return true;
  if (!link->second.is_greeted) return false;  // the greeting is the first frame
  if (link->second.local) return link->second.local->send(frame);
  has_sent_ = true;
  try {
    const bool is_sent = send_frame(router_, link->second.ticket, frame);
    is_router_full_ = is_router_full_ || !is_sent;
    return is_sent;
  } catch (const zmq::error_t& error) {
    if (error.num() == EHOSTUNREACH) return true;  // its end is noticed on the control link
    throw;
  }
}

bool ZmqServerWire::send_now(std::uint64_t number, const Frame& frame) {
  const auto link = links_.find(number);
  if (link == links_.end() || !link->second.is_greeted) return false;
  LocalLink* local = link->second.local.get();
  if (local == nullptr || !local->send(frame)) return false;
  if (local->has_rest()) waker_.wake();
  return true;
}

std::shared_ptr<MessageMemory> ZmqServerWire::memory(std::uint64_t number) const {
  const auto link = links_.find(number);
  if (link == links_.end() || !link->second.local) return nullptr;
  return link->second.local->memory();
}

bool ZmqServerWire::has_rest() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& one) {
    return one.second.local && one.second.local->has_rest();
  });
}

// The last words to those of this host.
void ZmqServerWire::send_rests() {
  const Deadline end = Clock::now() + std::chrono::milliseconds(kLinger);
  for (auto& [number, link] : links_)
    while (link.local && !link.local->send_rest() && Clock::now() < end) {
      pollfd room{link.local->fd(), POLLOUT, 0};
      ::poll(&room, 1, poll_milliseconds(end));
    }
}

// Two for each link: its control connection, and the local one, or none.
void ZmqServerWire::watch_links(std::vector<pollfd>& watched, bool wants_frames) const {
  for (const auto& [number, link] : links_) {
    watched.push_back({link.control.fd(), POLLIN, 0});
    short events = 0;
    if (link.local && link.is_open && !link.local->is_closed()) {
      if (wants_frames) events = POLLIN;
      if (link.local->has_rest()) events = static_cast<short>(events | POLLOUT);
    }
    watched.push_back({events == 0 ? -1 : link.local->fd(), events, 0});
  }
}

void ZmqServerWire::note_local(std::uint64_t number, Link& link, short events) {
  has_writable_ = has_writable_ || (events & POLLOUT) != 0;
  if ((events & ~POLLOUT) == 0) return;
  link.local->set_readable();
  if (!std::exchange(link.is_listed, true)) readable_.push_back(number);
}

// By ZeroMQ's descriptors, without its own poll, which takes several system calls for each socket.
// They say that something has come which nobody has looked at: next() looks until there is nothing.
// To send is to look, too.
void ZmqServerWire::sleep(Deadline until, bool wants_frames, bool is_blocked) {
  std::vector<pollfd> watched{{waker_.fd(), POLLIN, 0},
                              {wants_frames ? router_fd_ : -1, POLLIN, 0}};
  const std::size_t others_from = watched.size();
  watched.push_back({authenticator_fd_, POLLIN, 0});
  watched.push_back({refusals_fd_, POLLIN, 0});
  listener_.watch(watched);
  if (local_listener_) local_listener_->watch(watched);
  const std::size_t links_from = watched.size();
  watch_links(watched, wants_frames);
  until = std::min(until, next_look_);
  if (is_blocked && (std::exchange(is_router_full_, false) || !wants_frames))
    until = std::min<Deadline>(until, Clock::now() + kRetry);
  look_after_sending();
  if (!events_.empty() || (wants_frames && has_unread_)) until = Clock::now();
  const auto poll = [&](int milliseconds) {
    return ::poll(watched.data(), watched.size(), milliseconds) > 0;
  };
  if (!spin_.run(until, [&] { return poll(0); })) {
    poll(poll_milliseconds(until));
    spin_.note_sleep();
  }
  if (watched[0].revents != 0) waker_.clear();
  if (watched[1].revents != 0) has_unread_ = true;
  for (std::size_t i = others_from; i < links_from; ++i)
    if (watched[i].revents != 0) next_look_ = {};
  for (std::size_t i = links_from; auto& [number, link] : links_) {
    if (watched[i++].revents != 0) next_look_ = {};
    if (const short events = watched[i++].revents; events != 0) note_local(number, link, events);
  }
}

// What came while something was sent is not said any more.
void ZmqServerWire::look_after_sending() {
  if (!std::exchange(has_sent_, false) || has_unread_) return;
  has_unread_ =
      uninterrupted([&] { return (router_.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0; });
}

}  // namespace

std::unique_ptr<MessageWire> listen_by_zmq(const MessageServerOptions& options,
                                           const Waker& waker) {
  try {
    return uninterrupted([&] { return std::make_unique<ZmqServerWire>(options, waker); });
  } catch (const zmq::error_t& error) {
    throw IoError("messages: {}: {}", to_string(options.listen), error.what());
  }
}

}  // namespace lockstep::comm::detail
