// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include "lockstep/comm/detail/brief_spin.h"
#include "lockstep/comm/detail/control_link.h"
#include "lockstep/comm/detail/local_rendezvous.h"
#include "lockstep/comm/detail/zmq_authenticator.h"
#include "lockstep/comm/detail/zmq_context.h"
#include "lockstep/comm/detail/zmq_interrupts.h"
#include "lockstep/comm/detail/zmq_message_socket.h"

namespace lockstep::comm::detail {
namespace {

// What the server sent before it closed its control link has come by then.
constexpr auto kLastFrames = std::chrono::milliseconds(200);
constexpr auto kSharing = std::chrono::seconds(2);      // for the server to show its memory
constexpr auto kPause = std::chrono::milliseconds(50);  // between attempts to connect
constexpr const char* kMonitor = "inproc://monitor";

class ZmqClientWire final : public MessageWire {
 public:
  ZmqClientWire(const MessageClientOptions& options, std::uint64_t id, const Waker& waker,
                Deadline deadline)
      : options_(options),
        waker_(waker),
        control_(connect_authenticated(options.server, options.source, options.secret, id, deadline,
                                       options.what),
                 options.heartbeat, options.silence) {
    connect(deadline);
  }

  std::optional<WireEvent> next(bool wants_frames) override;
  bool send(std::uint64_t /*link*/, const Frame& frame) override {
    return local_ ? local_->send(frame) : send_frame(dealer_, {}, frame);
  }
  bool send_now(std::uint64_t link, const Frame& frame) override;
  bool has_rest() const override { return local_ && local_->has_rest(); }
  std::shared_ptr<MessageMemory> memory(std::uint64_t /*link*/) const override {
    return local_ ? local_->memory() : nullptr;
  }
  void close(std::uint64_t /*link*/) override {}
  void sleep(Deadline until, bool wants_frames, bool is_blocked) override;
  void say_goodbye() override { control_.say_goodbye(); }
  Endpoint endpoint() const override { return options_.server; }
  Endpoint local() const override { return control_.local(); }

 private:
  void connect(Deadline deadline);
  MessageWelcome welcome_from(std::string_view bytes) const;
  MessageWelcome await_welcome(Deadline deadline);
  void share_memory(const MessageWelcome& welcome, Deadline deadline);
  void connect_data(const MessageWelcome& welcome);
  void await_hello(Deadline deadline);
  ControlLink::State look();
  void check_open(ControlLink::State state, Deadline deadline, const std::string& waits_for) const;
  bool has_lost_data();
  void look_at_link();
  void sleep_locally(Deadline until);
  std::optional<Frame> take_frame();

  MessageClientOptions options_;
  const Waker& waker_;
  ControlLink control_;
  std::optional<zmq::context_t> context_;  // none where the server is on this host
  zmq::socket_t dealer_, monitor_;
  std::unique_ptr<LocalLink> local_;  // in place of the dealer, where the server is on this host
  ControlLink::State state_ = ControlLink::State::open;
  std::string reason_;
  Deadline closed_at_ = {}, next_look_ = {};
  bool said_ = false;  // that it is over
  BriefSpin spin_;
};

void ZmqClientWire::connect(Deadline deadline) {
  const MessageWelcome welcome = await_welcome(deadline);
  if (welcome.encrypted != options_.encrypted)
    throw Refused(fmt::format("{}: {}: the server's messages are {}encrypted, this client's {}",
                              options_.what, to_string(options_.server),
                              welcome.encrypted ? "" : "not ",
                              options_.encrypted ? "are" : "are not"));
  share_memory(welcome, deadline);
  if (local_)
    control_.send_signed(to_bytes(
        MessageAnswer{std::string(kCurveKey, '\0'), options_.name, options_.reconnects, true}));
  else
    connect_data(welcome);
  control_.start_heartbeats(welcome.heartbeat);
  await_hello(deadline);
}

void ZmqClientWire::share_memory(const MessageWelcome& welcome, Deadline deadline) {
  const std::size_t bytes = std::min<std::uint64_t>(welcome.local_bytes, options_.shared_memory);
  if (bytes == 0) return;
  local_ = connect_locally(welcome.local_name, welcome.ticket,
                           {control_.proof(kClientMemory), control_.proof(kServerMemory)}, bytes,
                           std::min<Deadline>(deadline, Clock::now() + kSharing));
}

void ZmqClientWire::check_open(ControlLink::State state, Deadline deadline,
                               const std::string& waits_for) const {
  const std::string at = fmt::format("{}: {}", options_.what, to_string(options_.server));
  if (state != ControlLink::State::open)
    throw PeerLost(fmt::format("{}: {}", at, control_.reason(state)), -1, options_.server.host,
                   options_.what);
  if (Clock::now() >= deadline)
    throw Timeout(fmt::format("{}: connected, but {} did not come in time", at, waits_for), -1,
                  options_.server.host, options_.what);
}

// A silent server is waited for where it is not dropped.
ControlLink::State ZmqClientWire::look() {
  const ControlLink::State state = control_.look();
  const bool stays = state == ControlLink::State::silent && !options_.drops_silent;
  return stays ? ControlLink::State::open : state;
}

MessageWelcome ZmqClientWire::welcome_from(std::string_view bytes) const {
  try {
    return to_welcome(bytes);
  } catch (const Refused& error) {
    throw Refused(
        fmt::format("{}: {}: {}", options_.what, to_string(options_.server), error.what()));
  }
}

MessageWelcome ZmqClientWire::await_welcome(Deadline deadline) {
  while (true) {
    if (const auto bytes = control_.take_signed(kWelcomeBytes)) return welcome_from(*bytes);
    check_open(look(), deadline, "its welcome");
    pollfd watched{control_.fd(), POLLIN, 0};
    ::poll(&watched, 1, poll_milliseconds(deadline, 100));
  }
}

void ZmqClientWire::connect_data(const MessageWelcome& welcome) {
  const std::string host = control_.remote().host;
  dealer_ = make_message_socket(context_.emplace(make_zmq_context()), zmq::socket_type::dealer,
                                host, options_);
  dealer_.set(zmq::sockopt::routing_id, welcome.ticket);
  MessageAnswer answer{std::string(kCurveKey, '\0'), options_.name, options_.reconnects};
  if (welcome.encrypted) {
    const CurveKeys keys;
    dealer_.set(zmq::sockopt::curve_serverkey, welcome.server_key);
    dealer_.set(zmq::sockopt::curve_publickey, keys.open);
    dealer_.set(zmq::sockopt::curve_secretkey, keys.secret);
    answer.client_key = keys.open;
  } else {
    dealer_.set(zmq::sockopt::plain_username, welcome.ticket);
    dealer_.set(zmq::sockopt::plain_password, welcome.ticket);  // none is no password
  }
  if (::zmq_socket_monitor(dealer_.handle(), kMonitor, ZMQ_EVENT_DISCONNECTED) != 0)
    throw IoError("messages: {}", ::zmq_strerror(errno));
  monitor_ = zmq::socket_t(*context_, zmq::socket_type::pair);
  monitor_.connect(kMonitor);
  control_.send_signed(to_bytes(answer));
  const std::string source =
      options_.source.empty() ? "" : to_string(Endpoint{options_.source, 0}) + ";";
  dealer_.connect("tcp://" + source + to_string(Endpoint{host, welcome.port}));
}

void ZmqClientWire::await_hello(Deadline deadline) {
  while (true) {
    std::vector<zmq::pollitem_t> watched{{nullptr, control_.fd(), ZMQ_POLLIN, 0},
                                         {nullptr, local_ ? local_->fd() : -1, ZMQ_POLLIN, 0}};
    if (!local_) watched[1] = {dealer_.handle(), 0, ZMQ_POLLIN, 0};
    poll_sockets(watched, poll_milliseconds(deadline, 100));
    if (local_) local_->set_readable();
    if (const std::optional<Frame> frame = take_frame()) {
      if (frame->header.kind == FrameHeader::Kind::hello) return;
      throw Corrupt("{}: {}: its first message is no greeting", options_.what,
                    to_string(options_.server));
    }
    check_open(look(), deadline, "the first message");
    if (has_lost_data()) check_open(ControlLink::State::lost, deadline, "");
  }
}

bool ZmqClientWire::has_lost_data() {
  if (local_) return local_->is_closed();
  zmq::message_t event;
  const bool lost =
      uninterrupted([&] { return monitor_.recv(event, zmq::recv_flags::dontwait).has_value(); });
  while (lost && monitor_.get(zmq::sockopt::rcvmore)) receive_rest(monitor_, event);
  return lost;
}

void ZmqClientWire::look_at_link() {
  next_look_ = control_.next_look();
  state_ = look();
  if (state_ == ControlLink::State::open && has_lost_data()) state_ = ControlLink::State::lost;
  if (state_ == ControlLink::State::open) return;
  reason_ = control_.reason(state_);
  closed_at_ = Clock::now();
}

std::optional<Frame> ZmqClientWire::take_frame() {
  if (local_) {
    if (local_->has_rest()) local_->send_rest();
    auto frame = local_->receive();
    if (local_->is_closed()) next_look_ = {};
    return frame;
  }
  zmq::message_t header;
  if (!uninterrupted([&] { return dealer_.recv(header, zmq::recv_flags::dontwait); }))
    return std::nullopt;
  return receive_frame(dealer_, header);
}

std::optional<WireEvent> ZmqClientWire::next(bool wants_frames) {
  if (state_ == ControlLink::State::open && Clock::now() >= next_look_) look_at_link();
  if (wants_frames)
    if (auto frame = take_frame()) {
      WireEvent event;
      event.frame = std::move(*frame);
      return event;
    }
  const bool has_all = (local_ && local_->is_closed()) || Clock::now() - closed_at_ > kLastFrames;
  const bool is_over = state_ != ControlLink::State::open && has_all;
  if (!is_over || std::exchange(said_, true)) return std::nullopt;
  WireEvent lost{WireEvent::Kind::lost};
  lost.reason = reason_;
  return lost;
}

bool ZmqClientWire::send_now(std::uint64_t /*link*/, const Frame& frame) {
  if (!local_ || !local_->send(frame)) return false;
  if (local_->has_rest()) waker_.wake();
  return true;
}

// Without ZeroMQ, which looks twice. A blocked link has a rest, or waits for the other end's word.
void ZmqClientWire::sleep_locally(Deadline until) {
  const bool is_open = state_ == ControlLink::State::open;
  const auto events = static_cast<short>(POLLIN | (local_->has_rest() ? POLLOUT : 0));
  pollfd watched[] = {{waker_.fd(), POLLIN, 0},
                      {local_->is_closed() ? -1 : local_->fd(), events, 0},
                      {is_open ? control_.fd() : -1, POLLIN, 0}};
  until = std::min(until, is_open ? next_look_ : closed_at_ + kLastFrames);
  if (!spin_.run(until, [&] { return ::poll(watched, 3, 0) > 0; })) {
    ::poll(watched, 3, poll_milliseconds(until));
    spin_.note_sleep();
  }
  if (watched[0].revents != 0) waker_.clear();
  if (watched[1].revents != 0) local_->set_readable();
  if (watched[2].revents != 0) next_look_ = {};
}

void ZmqClientWire::sleep(Deadline until, bool wants_frames, bool is_blocked) {
  if (local_) return sleep_locally(until);
  const bool is_open = state_ == ControlLink::State::open;
  short events = static_cast<short>(wants_frames ? ZMQ_POLLIN : 0);
  if (is_blocked) events = static_cast<short>(events | ZMQ_POLLOUT);
  std::vector<zmq::pollitem_t> watched{{nullptr, waker_.fd(), ZMQ_POLLIN, 0},
                                       {dealer_.handle(), 0, events, 0}};
  if (is_open) watched.push_back({monitor_.handle(), 0, ZMQ_POLLIN, 0});
  if (is_open) watched.push_back({nullptr, control_.fd(), ZMQ_POLLIN, 0});
  until = std::min(until, is_open ? next_look_ : closed_at_ + kLastFrames);
  poll_sockets(watched, poll_milliseconds(until));
  if (watched[0].revents != 0) waker_.clear();
  for (std::size_t i = 2; i < watched.size(); ++i)
    if (watched[i].revents != 0) next_look_ = {};
}

}  // namespace

std::unique_ptr<MessageWire> connect_by_zmq(const MessageClientOptions& options, std::uint64_t id,
                                            const Waker& waker, Deadline deadline) {
  // A server has no patience with a slow one, which tries again.
  for (;; std::this_thread::sleep_for(kPause)) {
    try {
      return std::make_unique<ZmqClientWire>(options, id, waker, deadline);
    } catch (const PeerLost&) {
      if (Clock::now() + kPause >= deadline) throw;
    } catch (const zmq::error_t& error) {
      if (error.num() == EINTR && Clock::now() < deadline) continue;
      throw IoError("messages: {}: {}", to_string(options.server), error.what());
    }
  }
}

}  // namespace lockstep::comm::detail
