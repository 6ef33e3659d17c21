// SPDX-License-Identifier: Apache-2.0
// What becomes of messages when processes die, stop or are cut off, and what strangers can do.
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "lockstep/base/network_pair.h"
#include "lockstep/comm/authenticated_listener.h"
#include "lockstep/comm/detail/control_link.h"
#include "lockstep/comm/detail/zmq_authenticator.h"
#include "lockstep/comm/detail/zmq_message_socket.h"
#include "tests/cluster/child.h"
#include "tests/comm/message_worlds.h"
#include "tests/message.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::Child;
using lockstep::testing::contains;
using lockstep::testing::message_of;

std::vector<MessageWorld> network_worlds() {
  std::vector<MessageWorld> worlds = message_worlds();
  std::erase_if(worlds, [](const MessageWorld& world) { return world.in_memory; });
  return worlds;
}

// A port that nobody has now: for a server that is to start in another process.
Endpoint free_endpoint() { return local_endpoint(listen_on({"127.0.0.1", 0})); }

// Where this process listens, without those of `before`: by its sockets' numbers in /proc.
std::vector<Endpoint> ports_of_this_process(const std::vector<Endpoint>& before = {}) {
  std::set<std::string> own;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string name = std::filesystem::read_symlink(file.path(), gone);
    if (name.starts_with("socket:[")) own.insert(name.substr(8, name.size() - 9));
  }
  std::vector<Endpoint> ports;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
    if (fields.size() < 10 || fields[3] != "0A" || !own.contains(fields[9])) continue;
    const std::string port = fields[1].substr(fields[1].find(':') + 1);
    ports.push_back({"127.0.0.1", static_cast<std::uint16_t>(std::stoul(port, nullptr, 16))});
  }
  for (const Endpoint& old : before)
    std::erase_if(ports, [&](const Endpoint& one) { return one.port == old.port; });
  return ports;
}

// A client's data socket, by hand.
zmq::socket_t make_dealer(zmq::context_t& context, const detail::MessageWelcome& welcome,
                          const detail::CurveKeys& keys) {
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.set(zmq::sockopt::routing_id, welcome.ticket);
  if (welcome.encrypted) {
    dealer.set(zmq::sockopt::curve_serverkey, welcome.server_key);
    dealer.set(zmq::sockopt::curve_publickey, keys.open);
    dealer.set(zmq::sockopt::curve_secretkey, keys.secret);
  } else {
    dealer.set(zmq::sockopt::plain_username, welcome.ticket);
    dealer.set(zmq::sockopt::plain_password, welcome.ticket);
  }
  return dealer;
}

class MessageFailures : public ::testing::TestWithParam<MessageWorld> {
 protected:
  void SetUp() override {
    options_ = server_options(GetParam());
    options_.heartbeat = 50ms;
    options_.silence = 500ms;
  }
  // Answers everything with the request's own bytes, except "wait".
  static std::string serve(const MessageServerOptions& options) {
    MessageServer server(options);
    while (true)
      if (const auto event = server.receive(Clock::now() + 20s);
          event && event->kind == MessageEvent::Kind::request && event->payload.text() != "wait")
        server.reply(*event, event->payload);
  }
  MessageServerOptions options_;
};

TEST_P(MessageFailures, AServerThatIsKilledIsLostAtOnce) {
  options_.listen = free_endpoint();
  const Child server([&] { return serve(options_); });
  MessageClientOptions options = client_options(options_, options_.listen);
  options.reconnects = false;
  MessageClient client(options);
  EXPECT_EQ(client.ask(Payload("hello")).payload.text(), "hello");
  PendingReply reply = client.request(Payload("wait"), {.what = "pull of w", .timeout = 60s});
  server.signal(SIGKILL);
  const std::string text = message_of<PeerLost>([&] { reply.wait(); });
  EXPECT_TRUE(contains(text, "pull of w: " + to_string(options_.listen) + " was lost")) << text;
}

TEST_P(MessageFailures, AServerThatIsKilledAndStartedAgainIsFoundAgain) {
  options_.listen = free_endpoint();
  auto server = std::make_unique<Child>([&] { return serve(options_); });
  MessageClient client(client_options(options_, options_.listen));
  EXPECT_EQ(client.ask(Payload("hello")).payload.text(), "hello");
  server.reset();  // killed
  PendingReply reply = client.request(Payload("and again"), {.timeout = 30s});
  server = std::make_unique<Child>([&] { return serve(options_); });
  EXPECT_EQ(reply.wait().payload.text(), "and again");
}

TEST_P(MessageFailures, AServerThatIsStoppedIsATimeoutAndAnswersWhenItGoesOn) {
  options_.listen = free_endpoint();
  const Child server([&] { return serve(options_); });
  MessageClient client(client_options(options_, options_.listen));
  EXPECT_EQ(client.ask(Payload("hello")).payload.text(), "hello");
  server.signal(SIGSTOP);
  const auto ask = [&] { client.ask(Payload("?"), {.what = "pull of w", .timeout = 1500ms}); };
  const std::string text = message_of<Timeout>(ask);
  EXPECT_TRUE(contains(text, "pull of w: " + to_string(options_.listen) + " did not answer"))
      << text;
  EXPECT_TRUE(contains(text, "no connection: ")) << text;
  server.signal(SIGCONT);
  EXPECT_EQ(client.ask(Payload("!"), {.timeout = 30s}).payload.text(), "!");
}

TEST_P(MessageFailures, ClientsThatAreKilledOrStoppedAreNoticed) {
  MessageServer server(options_);
  const auto live = [&](const char* name) {
    return Child([&, name] {
      MessageClientOptions options = client_options(options_, server.endpoint());
      options.name = name;
      MessageClient client(options);
      client.ask(Payload(name), {.timeout = 60s});
      return std::string("answered");
    });
  };
  const Child killed = live("killed"), stopped = live("stopped");
  std::map<std::string, std::uint64_t> ids;
  while (ids.size() < 2) {
    const MessageEvent request = next_request(server);
    ids[request.peer.name] = request.peer.id;
  }
  killed.signal(SIGKILL);
  MessageEvent end = next_end(server);
  EXPECT_EQ(end.kind, MessageEvent::Kind::lost);
  EXPECT_EQ(end.peer.id, ids["killed"]);
  stopped.signal(SIGSTOP);
  end = next_end(server);
  EXPECT_EQ(end.kind, MessageEvent::Kind::silent);
  EXPECT_EQ(end.peer.id, ids["stopped"]);
  EXPECT_TRUE(contains(end.reason, "no heartbeat for")) << end.reason;
  // It comes back as the one it was.
  stopped.signal(SIGCONT);
  const auto back = server.receive(Clock::now() + 20s);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, MessageEvent::Kind::connected);
  EXPECT_EQ(back->peer.id, ids["stopped"]);
}

// Its connection and its request are the same afterwards.
TEST_P(MessageFailures, AClientThatIsStoppedIsHeardAgainWhereTheSilentAreNotDropped) {
  options_.drops_silent = false;
  MessageServer server(options_);
  Child stopped([&] {
    MessageClientOptions options = client_options(options_, server.endpoint());
    options.heartbeat = 60s;  // the server asks for more
    options.reconnects = false;
    MessageClient client(options);
    return client.ask(Payload("?"), {.timeout = 60s}).payload.text();
  });
  const MessageEvent request = next_request(server);
  stopped.signal(SIGSTOP);
  const MessageEvent silent = next_end(server);
  EXPECT_EQ(silent.kind, MessageEvent::Kind::silent);
  EXPECT_TRUE(contains(silent.reason, "no heartbeat for")) << silent.reason;
  EXPECT_EQ(server.peers().size(), 1u);
  stopped.signal(SIGCONT);
  EXPECT_EQ(next_end(server).kind, MessageEvent::Kind::heard);
  server.reply(request, Payload("still here"));
  EXPECT_EQ(stopped.result(), "still here");
  EXPECT_EQ(next_end(server).kind, MessageEvent::Kind::left);
}

// Somebody proves the secret, and never connects for the data: what would let it in is forgotten.
TEST_P(MessageFailures, ATicketThatIsNotUsedInTimeLetsNobodyIn) {
  options_.handshake_timeout = 300ms;
  MessageServer server(options_);
  detail::ControlLink control(
      connect_authenticated(server.endpoint(), "", options_.secret, 5, Clock::now() + 20s, "test"),
      options_.heartbeat, options_.silence);
  std::optional<std::string> bytes;
  for (const Deadline end = Clock::now() + 20s; !bytes && Clock::now() < end;)
    bytes = control.take_signed(detail::kWelcomeBytes);
  ASSERT_TRUE(bytes);
  const detail::MessageWelcome welcome = detail::to_welcome(*bytes);
  const detail::CurveKeys keys;
  control.send_signed(detail::to_bytes(detail::MessageAnswer{keys.open, "slow"}));
  const MessageEvent end = next_end(server);
  EXPECT_EQ(end.kind, MessageEvent::Kind::lost);
  EXPECT_EQ(end.reason, "its data connection did not come in time");

  zmq::context_t context;
  zmq::socket_t dealer = make_dealer(context, welcome, keys),
                events(context, zmq::socket_type::pair);
  const int outcomes = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  ASSERT_EQ(::zmq_socket_monitor(dealer.handle(), "inproc://outcome", outcomes), 0);
  events.set(zmq::sockopt::rcvtimeo, 20'000);
  events.connect("inproc://outcome");
  dealer.connect("tcp://" + to_string(Endpoint{"127.0.0.1", welcome.port}));
  zmq::message_t outcome;
  ASSERT_TRUE(events.recv(outcome));
  EXPECT_EQ(*outcome.data<std::uint16_t>(), ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
  ::zmq_socket_monitor(dealer.handle(), nullptr, 0);
}

// A link is open before its data connection is there: what is sent meanwhile waits, and comes after
// the greeting.
TEST_P(MessageFailures, NothingIsSentBeforeTheGreeting) {
  const detail::Waker waker;
  const auto server = detail::listen_by_zmq(options_, waker);
  std::optional<std::uint64_t> link;
  const auto turn = [&] {
    while (const auto event = server->next(true))
      if (event->kind == detail::WireEvent::Kind::opened) link = event->link;
    server->sleep(Clock::now() + 5ms, true, false);
  };
  const Deadline end = Clock::now() + 20s;
  auto connecting = std::async(std::launch::async, [&] {
    return connect_authenticated(server->endpoint(), "", options_.secret, 5, end, "test");
  });
  while (connecting.wait_for(0s) != std::future_status::ready) turn();
  detail::ControlLink control(connecting.get(), options_.heartbeat, 60s);
  std::optional<std::string> bytes;
  for (; !bytes && Clock::now() < end; turn()) bytes = control.take_signed(detail::kWelcomeBytes);
  ASSERT_TRUE(bytes);
  const detail::MessageWelcome welcome = detail::to_welcome(*bytes);
  const detail::CurveKeys keys;
  control.send_signed(detail::to_bytes(detail::MessageAnswer{keys.open, "slow"}));
  control.start_heartbeats(options_.heartbeat);
  while (!link && Clock::now() < end) turn();
  ASSERT_TRUE(link);
  detail::Frame frame;
  frame.header.kind = detail::FrameHeader::Kind::reply;
  EXPECT_FALSE(server->send(*link, frame));

  zmq::context_t context;
  zmq::socket_t dealer = make_dealer(context, welcome, keys);
  dealer.connect("tcp://" + to_string(Endpoint{"127.0.0.1", welcome.port}));
  while (!server->send(*link, frame) && Clock::now() < end) {
    control.look();
    turn();
  }
  dealer.set(zmq::sockopt::rcvtimeo, 20'000);
  for (const auto kind : {detail::FrameHeader::Kind::hello, detail::FrameHeader::Kind::reply}) {
    zmq::message_t header;
    ASSERT_TRUE(dealer.recv(header));
    EXPECT_EQ(detail::receive_frame(dealer, header).header.kind, kind);
  }
}

// A server that is not ours, though it knows the secret.
TEST(MessageClients, AFirstFrameThatIsNoGreetingIsCorrupt) {
  MessageServerOptions options = server_options({"zmq"});
  AuthenticatedListener listener({"127.0.0.1", 0}, options.secret);
  auto text = std::async(std::launch::async, [&] {
    return message_of<Corrupt>(
        [&] { const MessageClient client(client_options(options, listener.endpoint())); });
  });
  const Deadline end = Clock::now() + 20s;
  std::vector<AuthenticatedConnection> come;
  while (come.empty() && Clock::now() < end) come = listener.accept();
  ASSERT_EQ(come.size(), 1u);
  detail::ControlLink control(std::move(come[0]), options.heartbeat, 60s);
  zmq::context_t context;
  detail::ZmqAuthenticator authenticator(context);
  zmq::socket_t router =
      detail::make_message_socket(context, zmq::socket_type::router, "127.0.0.1", options);
  router.set(zmq::sockopt::router_mandatory, true);
  router.set(zmq::sockopt::zap_domain, "lockstep");
  router.set(zmq::sockopt::plain_server, true);
  router.bind("tcp://127.0.0.1:*");
  const std::string at = router.get(zmq::sockopt::last_endpoint);
  const std::string ticket(32, 't');
  authenticator.admit_user(ticket);
  control.send_signed(detail::to_bytes(detail::MessageWelcome{
      parse_endpoint(at.c_str() + 6).port, false, ticket, "", options.heartbeat}));
  detail::Frame frame;
  frame.header.kind = detail::FrameHeader::Kind::reply;
  for (bool is_sent = false; !is_sent && Clock::now() < end;) {
    control.look();
    authenticator.answer();
    try {
      is_sent = detail::send_frame(router, ticket, frame);
    } catch (const zmq::error_t& error) {
      ASSERT_EQ(error.num(), EHOSTUNREACH);
    }
  }
  const std::string said = text.get();
  EXPECT_TRUE(contains(said, "connect: " + to_string(listener.endpoint()))) << said;
  EXPECT_TRUE(contains(said, "its first message is no greeting")) << said;
}

// As by a server that finds it too slow.
TEST_P(MessageFailures, AClientThatIsHungUpOnWhileItConnectsTriesAgain) {
  options_.listen = free_endpoint();
  Child client([&] {
    MessageClient own(client_options(options_, options_.listen));
    return own.ask(Payload("?")).payload.text();
  });
  {
    AuthenticatedListener first(options_.listen, options_.secret);
    std::vector<AuthenticatedConnection> come;
    for (const Deadline end = Clock::now() + 20s; come.empty() && Clock::now() < end;)
      come = first.accept();
    ASSERT_EQ(come.size(), 1u);
  }
  MessageServer server(options_);
  server.reply(next_request(server), Payload("at last"));
  EXPECT_EQ(client.result(), "at last");
}

// They say nothing until they are hung up on.
TEST_P(MessageFailures, StrangersAtBothPortsAreCountedWithTheirSource) {
  options_.handshake_timeout = 1s;
  const std::vector<Endpoint> before = ports_of_this_process();
  MessageServer server(options_);
  MessageClient client(client_options(options_, server.endpoint()));
  PendingReply reply = client.request(Payload("!"));
  server.reply(next_request(server), Payload("!"));
  reply.wait();
  const std::vector<Endpoint> ports = ports_of_this_process(before);
  EXPECT_EQ(ports.size(), 2u);
  std::vector<Socket> strangers;
  for (const Endpoint& port : ports)
    for (int i = 0; i < 3; ++i) strangers.push_back(connect_to(port, "", Clock::now() + 20s));
  for (const Deadline end = Clock::now() + 20s;
       server.refusals().count() < 6 && Clock::now() < end;)
    std::this_thread::yield();
  EXPECT_EQ(server.refusals().counts_by_host(), "127.0.0.1 (6)");
  EXPECT_EQ(server.refusals().take_new().size(), 1u);
  EXPECT_TRUE(client.is_connected());
}

// A client that takes no answers costs the others nothing.
TEST_P(MessageFailures, AStoppedClientDoesNotHoldUpTheOthers) {
  MessageServer server(options_);
  const auto bytes = message_bytes(8 << 20, 1);
  const Child stopped([&] {
    MessageClient client(client_options(options_, server.endpoint()));
    std::vector<PendingReply> replies;
    for (int i = 0; i < 20; ++i) replies.push_back(client.request(Payload("long")));
    for (PendingReply& reply : replies) reply.wait();
    return std::string("answered");
  });
  const MessageEvent first = next_request(server);
  stopped.signal(SIGSTOP);
  server.reply(first, Payload().add(std::span(bytes), nullptr));
  const Answerer answers(server, [&](const MessageEvent& request) {
    const bool is_long = request.payload.text() == "long";
    server.reply(request, is_long ? Payload().add(std::span(bytes), nullptr) : Payload("short"));
  });
  MessageClient client(client_options(options_, server.endpoint()));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(client.ask(Payload("?")).payload.text(), "short");
}

TEST_P(MessageFailures, AServerThatIsNotThereIsATimeout) {
  MessageClientOptions options = client_options(options_, free_endpoint());
  options.connect_timeout = 200ms;
  const std::string text = message_of<Timeout>([&] { MessageClient client(options); });
  EXPECT_TRUE(contains(text, "connect: " + to_string(options.server))) << text;
}

TEST_P(MessageFailures, EncryptionIsOfBothOrNone) {
  MessageServer server(options_);
  MessageClientOptions options = client_options(options_, server.endpoint());
  options.encrypted = !options.encrypted;
  const std::string text = message_of<Refused>([&] { MessageClient client(options); });
  EXPECT_TRUE(contains(text, "encrypted")) << text;
}

// The data's port takes nobody who has not proved the secret at the other one, and no long frame.
TEST_P(MessageFailures, StrangersAtTheDataPortGetNothingAndCostNothing) {
  const std::vector<Endpoint> before = ports_of_this_process();
  MessageServer server(options_);
  MessageClient client(client_options(options_, server.endpoint()));
  std::string greeting = "\xff" + std::string(8, '\0') + "\x7f\x03" + std::string(1, '\0') +
                         (GetParam().encrypted ? "CURVE" : "PLAIN");
  greeting.resize(64, '\0');
  greeting += '\x06';  // a command of 1 GB
  for (int i = 7; i >= 0; --i) greeting += static_cast<char>((std::uint64_t{1} << 30) >> (8 * i));
  const std::string block(1 << 16, 'x');
  for (const Endpoint& port : ports_of_this_process(before)) {
    const Socket stranger = connect_to(port, "", Clock::now() + 20s);
    std::size_t sent = 0;
    for (std::string next = greeting; sent < (64u << 20); next = block) {
      pollfd room{stranger.fd(), POLLOUT, 0};
      if (::poll(&room, 1, 500) <= 0) break;
      const ssize_t count = ::send(stranger.fd(), next.data(), next.size(), MSG_NOSIGNAL);
      if (count < 0) break;
      sent += static_cast<std::size_t>(count);
    }
    EXPECT_LT(sent, 32u << 20);
  }
  PendingReply reply = client.request(Payload("!"));
  server.reply(next_request(server), Payload("!"));
  EXPECT_EQ(reply.wait().payload.text(), "!");
}

TEST_P(MessageFailures, AConnectionThatIsCutIsLostOnBothSides) {
  if (!NetworkPair::why_not().empty()) GTEST_SKIP() << NetworkPair::why_not();
  const NetworkPair network;
  MessageServerOptions options = options_;
  options.silence = 2s;
  options.listen = {NetworkPair::address(0), 7707};
  Child server([&] {
    NetworkPair::enter(network.path(0));
    MessageServer own(options);
    own.reply(next_request(own), Payload("yes"));
    const MessageEvent end = next_end(own);
    return fmt::format("{} {}", static_cast<int>(end.kind), end.reason);
  });
  Child client([&] {
    NetworkPair::enter(network.path(1));
    MessageClient own(client_options(options, options.listen));
    if (own.ask(Payload("there?")).payload.text() != "yes") return std::string("wrong");
    network.cut();
    own.ask(Payload("still?"), {.what = "pull of w", .timeout = 5s});
    return std::string("answered");
  });
  const std::string text = client.result(60s);
  EXPECT_TRUE(contains(text, "Timeout: pull of w: 10.77.0.1:7707 did not answer")) << text;
  EXPECT_TRUE(contains(server.result(60s), "no heartbeat for"));
}

INSTANTIATE_TEST_SUITE_P(Wires, MessageFailures, ::testing::ValuesIn(network_worlds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::comm
