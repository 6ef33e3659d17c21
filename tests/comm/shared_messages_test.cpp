// SPDX-License-Identifier: Apache-2.0
// Messages between processes of one host, through memory that both see.
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <sstream>

#include "lockstep/comm/detail/control_link.h"
#include "lockstep/comm/detail/local_rendezvous.h"
#include "lockstep/comm/detail/unix_socket.h"
#include "lockstep/comm/detail/zmq_message_socket.h"
#include "tests/cluster/child.h"
#include "tests/comm/message_worlds.h"
#include "tests/seed.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::Child;

constexpr std::size_t kLong = 3'000'000;           // more than a socket takes in one segment
constexpr std::size_t kVeryLong = (20 << 20) + 1;  // and more than is on the way at a time

MessageServerOptions shared_options(std::size_t bytes = std::size_t{64} << 20) {
  return server_options({"shared", false, false, bytes});
}

// A part in one piece, longer than any that comes through a socket.
bool came_through_memory(const Payload& payload) {
  return payload.size() > Payload::kLongestSegment && payload.segments(0).size() == 1;
}

Payload long_payload(std::uint64_t seed) { return Payload().add(message_bytes(kLong, seed)); }

// That have our name: other programs have theirs there.
std::set<std::string> files_in_shm() {
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    if (const std::string name = file.path().filename(); name.find("lockstep") != name.npos)
      names.insert(name);
  return names;
}

// The names of UNIX sockets where servers of messages of this process listen.
std::set<std::string> local_names() {
  std::set<std::string> own, names;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string name = std::filesystem::read_symlink(file.path(), gone);
    if (name.starts_with("socket:[")) own.insert(name.substr(8, name.size() - 9));
  }
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    const auto at = line.find("@lockstep-");
    if (at == std::string::npos) continue;
    std::istringstream words(line);
    const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
    const bool listens = fields.size() == 8 && fields[3] == "00010000";
    if (listens && own.contains(fields[6])) names.insert(line.substr(at + 10));
  }
  return names;
}

TEST(SharedMessages, LongPartsComeInOnePieceBothWays) {
  MessageServer server(shared_options());
  MessageClient client(client_options(shared_options(), server.endpoint()));
  PendingReply reply = client.request(long_payload(1));
  const MessageEvent request = next_request(server);
  EXPECT_TRUE(came_through_memory(request.payload));
  EXPECT_EQ(bytes_of(request.payload), message_bytes(kLong, 1));
  server.reply(request, long_payload(2));
  const Reply answer = reply.wait();
  EXPECT_TRUE(came_through_memory(answer.payload));
  EXPECT_EQ(bytes_of(answer.payload), message_bytes(kLong, 2));
}

TEST(SharedMessages, PartsOfManyFramesComeInOnePieceBesideOthers) {
  MessageServer server(shared_options(128 << 20));
  MessageClient client(client_options(shared_options(128 << 20), server.endpoint()));
  const Answerer echo(server, [&](const MessageEvent& one) {
    EXPECT_TRUE(one.payload.size() < kVeryLong || came_through_memory(one.payload));
    server.reply(one, one.payload);
  });
  std::vector<PendingReply> replies;
  for (const std::uint64_t seed : {1, 2})
    replies.push_back(client.request(Payload().add(message_bytes(kVeryLong, seed))));
  replies.push_back(client.request(Payload("urgent"), {.priority = 5}));
  EXPECT_EQ(replies[2].wait().payload.text(), "urgent");
  for (const std::uint64_t seed : {1, 2}) {
    const Payload answer = replies[seed - 1].wait().payload;
    EXPECT_TRUE(came_through_memory(answer));
    EXPECT_EQ(bytes_of(answer), message_bytes(kVeryLong, seed));
  }
}

TEST(SharedMessages, EitherSideCanDoWithoutThem) {
  for (const auto& [of_server, of_client] :
       {std::pair{kLong * 4, std::size_t{0}}, std::pair{std::size_t{0}, kLong * 4},
        std::pair{kLong * 8, kLong * 4}, std::pair{kLong * 4, kLong * 8}}) {
    MessageServer server(shared_options(of_server));
    MessageClient client(client_options(shared_options(of_client), server.endpoint()));
    PendingReply reply = client.request(long_payload(1));
    const MessageEvent request = next_request(server);
    EXPECT_EQ(came_through_memory(request.payload), of_server > 0 && of_client > 0);
    EXPECT_EQ(bytes_of(request.payload), message_bytes(kLong, 1));
    server.reply(request, request.payload);
    EXPECT_EQ(bytes_of(reply.wait().payload), message_bytes(kLong, 1));
  }
}

// What is written into memory from allocate() is sent from there.
TEST(SharedMessages, AllocatedMemoryIsSentWhereItLies) {
  MessageServer server(shared_options());
  MessageClient client(client_options(shared_options(), server.endpoint()));
  const auto bytes = message_bytes(kLong, 4);
  MessageBuffer buffer = client.allocate(kLong);
  std::copy(bytes.begin(), bytes.end(), buffer.bytes.begin());
  PendingReply reply = client.request(Payload().add(buffer));
  const MessageEvent request = next_request(server);
  buffer.bytes[7] = std::byte{99};  // forbidden, and so it shows
  EXPECT_EQ(request.payload.segments(0)[0].bytes[7], std::byte{99});
  MessageBuffer answer = server.allocate(request.peer.id, kLong);
  std::copy(bytes.begin(), bytes.end(), answer.bytes.begin());
  server.reply(request, Payload().add(answer));
  const Reply got = reply.wait();
  EXPECT_EQ(bytes_of(got.payload), bytes);
  answer.bytes[8] = std::byte{98};
  EXPECT_EQ(got.payload.segments(0)[0].bytes[8], std::byte{98});
}

TEST(SharedMessages, AllocatedMemoryIsAnyMemoryWhereNothingIsShared) {
  MessageServer server(shared_options(0));
  MessageClient client(client_options(shared_options(0), server.endpoint()));
  const MessageBuffer buffer = client.allocate(kLong);
  ASSERT_EQ(buffer.bytes.size(), kLong);
  std::fill(buffer.bytes.begin(), buffer.bytes.end(), std::byte{5});
  PendingReply reply = client.request(Payload().add(buffer));
  const MessageEvent request = next_request(server);
  EXPECT_EQ(bytes_of(request.payload), std::vector(kLong, std::byte{5}));
  EXPECT_EQ(server.allocate(request.peer.id, 10).bytes.size(), 10u);
  EXPECT_EQ(server.allocate(request.peer.id + 1, 10).bytes.size(), 10u);
}

// The memory is full while the server holds on to what came; the rest goes through the socket, and
// through memory again when it has let go.
TEST(SharedMessages, OneWhoHoldsOnToPayloadsStopsNobody) {
  const auto options = shared_options(4 * kLong);
  MessageServer server(options);
  MessageClient client(client_options(options, server.endpoint()));
  std::vector<MessageEvent> held;
  std::size_t through_memory = 0;
  for (std::uint64_t i = 0; i < 10; ++i) {
    PendingReply reply = client.request(long_payload(i));
    held.push_back(next_request(server));
    server.reply(held.back(), {});
    reply.wait();
    through_memory += came_through_memory(held.back().payload) ? 1 : 0;
  }
  EXPECT_EQ(through_memory, 4u);
  for (std::uint64_t i = 0; i < 10; ++i)
    EXPECT_EQ(bytes_of(held[i].payload), message_bytes(kLong, i));
  held.clear();
  PendingReply reply = client.request(long_payload(77));
  EXPECT_TRUE(came_through_memory(next_request(server).payload));
}

TEST(SharedMessages, WhatCameOutlivesItsSender) {
  const auto options = shared_options();
  auto server = std::make_unique<MessageServer>(options);
  auto client = std::make_unique<MessageClient>(client_options(options, server->endpoint()));
  PendingReply reply = client->request(long_payload(3));
  MessageEvent request = next_request(*server);
  server->reply(request, long_payload(4));
  Reply answer = reply.wait();
  client.reset();
  EXPECT_EQ(bytes_of(request.payload), message_bytes(kLong, 3));
  server.reset();
  EXPECT_EQ(bytes_of(request.payload), message_bytes(kLong, 3));
  EXPECT_EQ(bytes_of(answer.payload), message_bytes(kLong, 4));
}

// The connection is cut while a long request is unanswered: it comes again, with all its bytes.
TEST(SharedMessages, ALongRequestComesAgainOnANewConnection) {
  const auto options = shared_options();
  auto server = std::make_unique<MessageServer>(options);
  auto again = options;
  again.listen = server->endpoint();
  MessageClient client(client_options(options, server->endpoint()));
  MessageBuffer buffer = client.allocate(kLong);
  const auto bytes = message_bytes(kLong, 6);
  std::copy(bytes.begin(), bytes.end(), buffer.bytes.begin());
  PendingReply copied = client.request(long_payload(5), {.timeout = 30s});
  PendingReply written = client.request(Payload().add(buffer), {.timeout = 30s});
  buffer = {};
  EXPECT_TRUE(came_through_memory(next_request(*server).payload));
  server.reset();
  server = std::make_unique<MessageServer>(again);
  for (const std::uint64_t seed : {5, 6}) {
    const MessageEvent request = next_request(*server);
    EXPECT_TRUE(came_through_memory(request.payload));
    EXPECT_EQ(bytes_of(request.payload), message_bytes(kLong, seed));
    server->reply(request, {});
  }
  copied.wait();
  written.wait();
}

TEST(SharedMessages, ManyClientsSendAndGetWhatIsTheirs) {
  const std::uint64_t seed = lockstep::testing::seed_of_this_run();
  const auto options = shared_options(8 << 20);
  MessageServer server(options);
  const Answerer first(server, [&](const MessageEvent& one) { server.reply(one, one.payload); });
  const Answerer second(server, [&](const MessageEvent& one) { server.reply(one, one.payload); });
  std::atomic<int> right = 0;
  const auto work = [&](std::uint64_t who) {
    MessageClient client(client_options(options, server.endpoint()));
    std::mt19937_64 random(seed + who);
    std::deque<std::pair<std::vector<std::vector<std::byte>>, PendingReply>> under_way;
    for (int i = 0; i < 150; ++i) {
      std::vector<std::vector<std::byte>> parts(random() % 5);
      Payload payload;
      for (auto& part : parts) {
        part = message_bytes(random() % (random() % 3 == 0 ? 900'000 : 40'000), random());
        payload.add(part);
      }
      under_way.emplace_back(std::move(parts), client.request(payload));
      while (under_way.size() > random() % 10) {
        const Payload got = under_way.front().second.wait().payload;
        const auto& expected = under_way.front().first;
        if (got.parts() != expected.size()) return;
        for (std::size_t part = 0; part < expected.size(); ++part)
          if (bytes_of(got, part) != expected[part]) return;
        under_way.pop_front();
      }
    }
    ++right;
  };
  std::vector<std::jthread> clients;
  for (std::uint64_t who = 0; who < 6; ++who) clients.emplace_back([&, who] { work(who); });
  clients.clear();
  EXPECT_EQ(right, 6) << "seed " << seed;
}

// Either end is killed wherever it is; the other goes on, and nothing is left behind.
TEST(SharedMessages, ProcessesThatAreKilledLeaveNothingBehind) {
  const std::uint64_t seed = lockstep::testing::seed_of_this_run();
  std::mt19937_64 random(seed);
  const std::set<std::string> files = files_in_shm();
  auto options = shared_options(16 << 20);
  for (int round = 0; round < 6; ++round) {
    options.listen = local_endpoint(listen_on({"127.0.0.1", 0}));
    auto server = std::make_unique<Child>([&] {
      MessageServer own(options);
      while (true)
        if (const auto event = own.receive(Clock::now() + 20s);
            event && event->kind == MessageEvent::Kind::request)
          own.reply(*event, event->payload);
      return std::string();
    });
    const Child client([&] {
      MessageClient own(client_options(options, options.listen));
      while (own.ask(long_payload(1), {.timeout = 60s}).payload.size() == kLong) {
      }
      return std::string("wrong");
    });
    MessageClient own(client_options(options, options.listen));
    EXPECT_EQ(own.ask(long_payload(2), {.timeout = 60s}).payload.size(), kLong);
    for (std::uint64_t asks = random() % 30; asks > 0; --asks) own.ask(Payload("?"));
    if (round % 2 == 0) {
      client.signal(SIGKILL);
      EXPECT_EQ(bytes_of(own.ask(long_payload(9)).payload), message_bytes(kLong, 9));
    } else {
      PendingReply reply = own.request(long_payload(8), {.timeout = 60s});
      server->signal(SIGKILL);
      server.reset();
      MessageServer next(options);
      const Answerer echo(next, [&](const MessageEvent& one) { next.reply(one, one.payload); });
      EXPECT_EQ(bytes_of(reply.wait().payload), message_bytes(kLong, 8)) << "seed " << seed;
    }
  }
  EXPECT_EQ(files_in_shm(), files) << "seed " << seed;
}

// Who finds the socket without having proved the secret is sent away, and gets no memory.
TEST(SharedMessages, StrangersAtTheLocalSocketGetNothing) {
  MessageServer server(shared_options());
  const std::set<std::string> names = local_names();
  ASSERT_EQ(names.size(), 1u);
  MessageClient client(client_options(shared_options(), server.endpoint()));
  const detail::LocalProofs guess{std::string(32, 'c'), std::string(32, 's')};
  EXPECT_FALSE(detail::connect_locally(*names.begin(), std::string(32, 't'), guess, 1 << 20,
                                       Clock::now() + 20s));
  const Socket rude = detail::make_unix_socket(SOCK_STREAM);
  const detail::UnixAddress address("lockstep-" + *names.begin());
  ASSERT_EQ(::connect(rude.fd(), address.get(), address.length), 0);
  const std::string garbage(5000, 'x');
  ASSERT_GT(::send(rude.fd(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  pollfd end{rude.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&end, 1, 20'000), 1);
  char block[16];
  EXPECT_LE(::recv(rude.fd(), block, sizeof block, 0), 0);
  PendingReply reply = client.request(long_payload(1));
  EXPECT_TRUE(came_through_memory(next_request(server).payload));
}

// As a client does it that then says where a part lies, and lies.
TEST(SharedMessages, AClientThatLiesAboutItsMemoryIsDropped) {
  const auto options = shared_options();
  MessageServer server(options);
  MessageClient honest(client_options(options, server.endpoint()));
  detail::ControlLink control(
      connect_authenticated(server.endpoint(), "", options.secret, 5, Clock::now() + 20s, "test"),
      options.heartbeat, options.silence);
  std::optional<std::string> bytes;
  for (const Deadline end = Clock::now() + 20s; !bytes && Clock::now() < end;)
    bytes = control.take_signed(detail::kWelcomeBytes);
  ASSERT_TRUE(bytes);
  const detail::MessageWelcome welcome = detail::to_welcome(*bytes);
  const auto liar = detail::connect_locally(
      welcome.local_name, welcome.ticket,
      {control.proof(detail::kClientMemory), control.proof(detail::kServerMemory)}, 1 << 20,
      Clock::now() + 20s);
  ASSERT_TRUE(liar);
  control.send_signed(detail::to_bytes(detail::MessageAnswer{"", "liar", false, true}));
  detail::FrameHeader header;
  header.kind = detail::FrameHeader::Kind::request;
  header.begins_part = true;
  header.parts = 1;
  std::string lie = detail::to_bytes(header);
  detail::put_number(lie, 1 << 20, 8);
  detail::put_number(lie, 0, 4);
  detail::put_number(lie, 1, 8);  // the last byte is behind the end
  ASSERT_EQ(::send(liar->fd(), lie.data(), lie.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(lie.size()));
  const MessageEvent end = next_end(server);
  EXPECT_EQ(end.peer.name, "liar");
  EXPECT_EQ(end.reason, "a message's part lies outside of the memory that its sender shows");
  PendingReply reply = honest.request(long_payload(1));
  EXPECT_TRUE(came_through_memory(next_request(server).payload));
}

// Memory that a stopped receiver does not read costs no more than is said.
TEST(SharedMessages, AReceiverThatIsStoppedCostsNoMoreThanIsSaid) {
  auto options = shared_options(4 * kLong);
  options.silence = 60s;
  options.listen = local_endpoint(listen_on({"127.0.0.1", 0}));
  Child stopped([&] {
    MessageClient client(client_options(options, options.listen));
    std::vector<PendingReply> replies;
    for (int i = 0; i < 12; ++i) replies.push_back(client.request(Payload("?"), {.timeout = 60s}));
    for (PendingReply& reply : replies)
      if (bytes_of(reply.wait().payload) != message_bytes(kLong, 1)) return std::string("wrong");
    return std::string("right");
  });
  MessageServer server(options);
  std::vector<MessageEvent> requests;
  for (int i = 0; i < 12; ++i) requests.push_back(next_request(server));
  stopped.signal(SIGSTOP);
  for (const MessageEvent& request : requests) server.reply(request, long_payload(1));
  stopped.signal(SIGCONT);
  EXPECT_EQ(stopped.result(60s), "right");
}

}  // namespace
}  // namespace lockstep::comm
