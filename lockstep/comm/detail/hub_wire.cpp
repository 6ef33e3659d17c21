// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "lockstep/base/hmac.h"
#include "lockstep/comm/detail/message_wire.h"
#include "lockstep/comm/messages/message_hub.h"

namespace lockstep::comm {
namespace detail {
namespace {

constexpr std::size_t kMostFrames = 64;  // that wait each way
constexpr auto kPause = std::chrono::milliseconds(5);

}  // namespace

// One connection: frames each way, and who is gone.
struct HubLink {
  MessagePeer peer;
  bool reconnects = true;
  std::deque<Frame> to_server, to_client;
  bool server_gone = false, client_gone = false, client_left = false;
  const Waker* client = nullptr;
};

struct HubServer {
  std::string secret;
  const Waker* waker;
  std::deque<std::shared_ptr<HubLink>> coming = {};
  RefusalLog refusals = {};
};

// One lock for all: simple, and a second opinion on the network's wire.
struct HubState {
  std::mutex mutex;
  std::map<std::string, HubServer*> servers;
  std::uint16_t last_port = 0;
};

namespace {

void sleep_on(const Waker& waker, Deadline until) {
  pollfd watched{waker.fd(), POLLIN, 0};
  ::poll(&watched, 1, poll_milliseconds(until));
  waker.clear();
}

class HubServerWire final : public MessageWire {
 public:
  HubServerWire(const MessageServerOptions& options, const Waker& waker)
      : hub_(options.hub), waker_(waker), own_{options.secret, &waker}, at_(options.listen) {
    const std::lock_guard lock(hub_->state().mutex);
    if (at_.port == 0) at_.port = ++hub_->state().last_port;
    if (!hub_->state().servers.emplace(to_string(at_), &own_).second)
      throw IoError("listen on {}: Address already in use", to_string(at_));
  }
  ~HubServerWire() override {
    const std::lock_guard lock(hub_->state().mutex);
    hub_->state().servers.erase(to_string(at_));
    for (const auto& link : own_.coming) end(*link);
    for (const auto& [number, link] : links_) end(*link);
  }

  std::optional<WireEvent> next(bool wants_frames) override {
    const std::lock_guard lock(hub_->state().mutex);
    if (!own_.coming.empty()) return open();
    for (auto place = links_.begin(); place != links_.end(); ++place) {
      HubLink& link = *place->second;
      if (!link.to_server.empty() && wants_frames) return take(place->first, link);
      if (!link.client_gone || !link.to_server.empty()) continue;
      WireEvent end{link.client_left ? WireEvent::Kind::left : WireEvent::Kind::lost, place->first};
      end.reason = "its connection closed";
      links_.erase(place);
      return end;
    }
    return std::nullopt;
  }

  bool send(std::uint64_t number, const Frame& frame) override {
    const std::lock_guard lock(hub_->state().mutex);
    const auto link = links_.find(number);
    if (link == links_.end() || link->second->client_gone) return true;
    if (link->second->to_client.size() == kMostFrames) return false;
    link->second->to_client.push_back(frame);
    link->second->client->wake();
    return true;
  }

  void close(std::uint64_t number) override {
    const std::lock_guard lock(hub_->state().mutex);
    if (const auto link = links_.find(number); link != links_.end()) {
      end(*link->second);
      links_.erase(link);
    }
  }

  void sleep(Deadline until, bool /*wants_frames*/, bool /*is_blocked*/) override {
    sleep_on(waker_, until);
  }
  Endpoint endpoint() const override { return at_; }
  Endpoint local() const override { return at_; }
  RefusalLog* refusals() override { return &own_.refusals; }

 private:
  static void end(HubLink& link) {
    link.server_gone = true;
    if (!link.client_gone) link.client->wake();
  }
  WireEvent open() {
    const std::shared_ptr<HubLink> link = own_.coming.front();
    own_.coming.pop_front();
    links_[++last_link_] = link;
    return {WireEvent::Kind::opened, last_link_, link->peer, link->reconnects};
  }
  WireEvent take(std::uint64_t number, HubLink& link) const {
    WireEvent event{WireEvent::Kind::frame, number};
    event.frame = std::move(link.to_server.front());
    link.to_server.pop_front();
    if (!link.client_gone) link.client->wake();
    return event;
  }

  std::shared_ptr<MessageHub> hub_;
  const Waker& waker_;
  HubServer own_;
  Endpoint at_;
  std::map<std::uint64_t, std::shared_ptr<HubLink>> links_;
  std::uint64_t last_link_ = 0;
};

class HubClientWire final : public MessageWire {
 public:
  HubClientWire(const MessageClientOptions& options, std::uint64_t id, const Waker& waker,
                Deadline deadline)
      : hub_(options.hub), waker_(waker), what_(options.what), at_(options.server) {
    link_->peer = {id, options.name};
    link_->reconnects = options.reconnects;
    link_->client = &waker;
    while (!try_connect(options.secret)) {
      if (Clock::now() >= deadline)
        throw Timeout(fmt::format("{}: {}: nobody listens there", what_, to_string(at_)), -1,
                      at_.host, what_);
      std::this_thread::sleep_for(kPause);
    }
  }
  ~HubClientWire() override {
    const std::lock_guard lock(hub_->state().mutex);
    link_->client_gone = true;
    wake_server();
  }

  std::optional<WireEvent> next(bool /*wants_frames*/) override {
    const std::lock_guard lock(hub_->state().mutex);
    if (!link_->to_client.empty()) {
      WireEvent event;
      event.frame = std::move(link_->to_client.front());
      link_->to_client.pop_front();
      wake_server();
      return event;
    }
    if (!link_->server_gone) return std::nullopt;
    WireEvent lost{WireEvent::Kind::lost};
    lost.reason = "it closed the connection";
    return lost;
  }
  bool send(std::uint64_t /*link*/, const Frame& frame) override {
    const std::lock_guard lock(hub_->state().mutex);
    if (link_->server_gone) return true;
    if (link_->to_server.size() == kMostFrames) return false;
    link_->to_server.push_back(frame);
    wake_server();
    return true;
  }
  void close(std::uint64_t /*link*/) override {}
  void sleep(Deadline until, bool /*wants_frames*/, bool /*is_blocked*/) override {
    sleep_on(waker_, until);
  }
  void say_goodbye() override {
    const std::lock_guard lock(hub_->state().mutex);
    link_->client_left = true;
  }
  Endpoint endpoint() const override { return at_; }
  Endpoint local() const override { return {}; }

 private:
  bool try_connect(const std::string& secret) {
    const std::lock_guard lock(hub_->state().mutex);
    const auto server = hub_->state().servers.find(to_string(at_));
    if (server == hub_->state().servers.end()) return false;
    if (!same_secret(server->second->secret, secret)) {
      server->second->refusals.add({link_->peer.name, 0}, "it does not know the job's secret");
      throw Refused(fmt::format("{}: {}: refused: the job's secret is not the one given here",
                                what_, to_string(at_)));
    }
    server->second->coming.push_back(link_);
    server->second->waker->wake();
    return true;
  }
  void wake_server() {
    const auto server = hub_->state().servers.find(to_string(at_));
    if (server != hub_->state().servers.end()) server->second->waker->wake();
  }

  std::shared_ptr<MessageHub> hub_;
  const Waker& waker_;
  const std::string what_;
  Endpoint at_;
  std::shared_ptr<HubLink> link_ = std::make_shared<HubLink>();
};

}  // namespace

std::unique_ptr<MessageWire> listen_in_memory(const MessageServerOptions& options,
                                              const Waker& waker) {
  return std::make_unique<HubServerWire>(options, waker);
}

std::unique_ptr<MessageWire> connect_in_memory(const MessageClientOptions& options,
                                               std::uint64_t id, const Waker& waker,
                                               Deadline deadline) {
  return std::make_unique<HubClientWire>(options, id, waker, deadline);
}

}  // namespace detail

MessageHub::MessageHub() : state_(std::make_unique<detail::HubState>()) {}
MessageHub::~MessageHub() = default;

}  // namespace lockstep::comm
