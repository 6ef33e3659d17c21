// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <map>
#include <utility>

#include "lockstep/base/hmac.h"
#include "lockstep/comm/detail/control_link.h"
#include "lockstep/comm/detail/zmq_authenticator.h"
#include "lockstep/comm/detail/zmq_interrupts.h"
#include "lockstep/comm/detail/zmq_message_socket.h"
#include "lockstep/comm/detail/zmq_refusals.h"

namespace lockstep::comm::detail {
namespace {

constexpr int kLinger = 1000;  // milliseconds for the last replies to leave
// A ROUTER does not say which of its peers has room again.
constexpr auto kRetry = std::chrono::milliseconds(2);

// Tickets are text: ZeroMQ takes them as user names.
std::string make_ticket() { return make_secret().substr(0, 32); }

class ZmqServerWire final : public MessageWire {
 public:
  ZmqServerWire(const MessageServerOptions& options, const Waker& waker)
      : options_(options),
        waker_(waker),
        listener_(options.listen, options.secret, options.handshake_timeout),
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
  }
  // The replies leave before the clients hear that the server does.
  ~ZmqServerWire() override {
    authenticator_.socket().close();
    refusals_.close();
    router_.close();
    context_.close();
    for (auto& [number, link] : links_) link.control.say_goodbye();
  }

  std::optional<WireEvent> next(bool wants_frames) override;
  bool send(std::uint64_t link, const Frame& frame) override;
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
  };
  void secure();
  void bind();
  void accept();
  void look_at_links();
  void read_controls();
  void look_at(std::uint64_t number, Link& link);
  void tell(std::uint64_t number, WireEvent::Kind kind, const std::string& reason);
  bool open(std::uint64_t number, Link& link);
  void greet(Link& link);
  void end(std::uint64_t number, WireEvent::Kind kind, const std::string& reason);
  void forget(std::uint64_t number);
  std::optional<WireEvent> take_frame();

  MessageServerOptions options_;
  const Waker& waker_;
  AuthenticatedListener listener_;
  Endpoint endpoint_;
  zmq::context_t context_;
  ZmqAuthenticator authenticator_;
  zmq::socket_t router_;
  ZmqRefusals refusals_;
  std::string public_key_;
  std::uint16_t data_port_ = 0;
  std::map<std::uint64_t, Link> links_;
  std::map<std::string, std::uint64_t> by_ticket_;
  std::deque<WireEvent> events_;
  std::uint64_t last_link_ = 0;
  Deadline next_look_ = {};
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
  if (::zmq_bind(router_.handle(), at(next).c_str()) != 0) router_.bind(at(0));
  const std::string bound = router_.get(zmq::sockopt::last_endpoint);
  data_port_ = parse_endpoint(std::string_view(bound.c_str()).substr(6)).port;
}

void ZmqServerWire::accept() {
  for (AuthenticatedConnection& connection : listener_.accept()) {
    Link link{{std::move(connection), options_.heartbeat, options_.silence},
              make_ticket(),
              Clock::now() + options_.handshake_timeout};
    link.control.send_signed(to_bytes(MessageWelcome{data_port_, options_.encrypted, link.ticket,
                                                     public_key_, options_.heartbeat}));
    links_.emplace(++last_link_, std::move(link));
  }
}

// True when the client has said what it has to.
bool ZmqServerWire::open(std::uint64_t number, Link& link) {
  const auto bytes = link.control.take_signed(kAnswerBytes);
  if (!bytes) return false;
  const MessageAnswer answer = to_answer(*bytes);
  link.client_key = answer.client_key;
  if (options_.encrypted)
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
  const ControlLink::State state = link.control.look();
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
  next_look_ = std::min<Deadline>(Clock::now() + options_.heartbeat, listener_.next_deadline());
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
  return wants_frames ? take_frame() : std::nullopt;
}

// What comes of a link that is gone is dropped.
std::optional<WireEvent> ZmqServerWire::take_frame() {
  zmq::message_t routing, header;
  while (router_.recv(routing, zmq::recv_flags::dontwait)) {
    header.rebuild();
    if (router_.get(zmq::sockopt::rcvmore)) static_cast<void>(router_.recv(header));
    const auto link = by_ticket_.find(routing.to_string());
    WireEvent event;
    try {
      event.frame = receive_frame(router_, header);
    } catch (const Corrupt& error) {
      if (link == by_ticket_.end()) continue;
      const std::uint64_t number = link->second;
      forget(number);
      WireEvent lost{WireEvent::Kind::lost, number};
      lost.reason = error.what();
      return lost;
    }
    if (link == by_ticket_.end()) continue;
    event.link = link->second;
    if (!std::exchange(links_.at(event.link).has_spoken, true))
      refusals_.take_first_message(header);
    return event;
  }
  return std::nullopt;
}

// As soon as its data connection is there, also while nothing is read.
void ZmqServerWire::greet(Link& link) {
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
  try {
    return send_frame(router_, link->second.ticket, frame);
  } catch (const zmq::error_t& error) {
    if (error.num() == EHOSTUNREACH) return true;  // its end is noticed on the control link
    throw;
  }
}

void ZmqServerWire::sleep(Deadline until, bool wants_frames, bool is_blocked) {
  std::vector<pollfd> listening;
  listener_.watch(listening);
  std::vector<zmq::pollitem_t> watched{
      {nullptr, waker_.fd(), ZMQ_POLLIN, 0},
      {authenticator_.socket().handle(), 0, ZMQ_POLLIN, 0},
      {router_.handle(), 0, static_cast<short>(wants_frames ? ZMQ_POLLIN : 0), 0},
      {refusals_.socket().handle(), 0, ZMQ_POLLIN, 0}};
  for (const pollfd& one : listening) watched.push_back({nullptr, one.fd, ZMQ_POLLIN, 0});
  for (const auto& [number, link] : links_)
    watched.push_back({nullptr, link.control.fd(), ZMQ_POLLIN, 0});
  until = std::min(until, next_look_);
  if (is_blocked) until = std::min<Deadline>(until, Clock::now() + kRetry);
  if (!events_.empty()) until = Clock::now();
  poll_sockets(watched, poll_milliseconds(until));
  if (watched[0].revents != 0) waker_.clear();
  for (std::size_t i = 1; i < watched.size(); ++i)
    if (i != 2 && watched[i].revents != 0) next_look_ = {};
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
