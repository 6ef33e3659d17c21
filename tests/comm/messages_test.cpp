// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <random>

#include "tests/comm/message_worlds.h"
#include "tests/message.h"
#include "tests/seed.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::message_of;

class Messages : public ::testing::TestWithParam<MessageWorld> {
 protected:
  MessageServerOptions server_options_ = server_options(GetParam());
};

TEST_P(Messages, ARequestIsAnsweredAndTheServerKnowsWhoAsked) {
  MessageServer server(server_options_);
  MessageClientOptions options = client_options(server_options_, server.endpoint());
  options.name = "worker 3";
  MessageClient client(options);
  const auto joined = server.receive(Clock::now() + 20s);
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->kind, MessageEvent::Kind::connected);
  EXPECT_EQ(joined->peer.name, "worker 3");
  EXPECT_EQ(joined->peer.id, client.id());
  PendingReply reply = client.request(Payload("pull"), {.topic = 7});
  const MessageEvent request = next_request(server);
  EXPECT_EQ(request.payload.text(), "pull");
  EXPECT_EQ(request.topic, 7u);
  EXPECT_EQ(request.peer.id, client.id());
  EXPECT_FALSE(reply.is_done());
  server.reply(request, Payload("weights"));
  EXPECT_EQ(reply.wait().payload.text(), "weights");
  ASSERT_EQ(server.peers().size(), 1u);
}

TEST_P(Messages, PartsOfEveryLengthArriveAsTheyWereSent) {
  MessageServer server(server_options_);
  MessageClient client(client_options(server_options_, server.endpoint()));
  const Answerer echo(server,
                      [&](const MessageEvent& request) { server.reply(request, request.payload); });
  const std::size_t segment = Payload::kLongestSegment;
  Payload payload;
  std::vector<std::vector<std::byte>> parts;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, segment - 1, segment, segment + 1,
                                  std::size_t{0}, 3 * segment, std::size_t{5'000'001}})
    parts.push_back(message_bytes(count, count));
  for (const auto& part : parts) payload.add(part);
  const Reply reply = client.ask(payload);
  ASSERT_EQ(reply.payload.parts(), parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(bytes_of(reply.payload, i), parts[i]);
  EXPECT_EQ(client.ask(Payload{}).payload.parts(), 0u);
}

TEST_P(Messages, WhatIsSentIsReadWhereItLiesAndLetGoAfterwards) {
  MessageServer server(server_options_);
  MessageClient client(client_options(server_options_, server.endpoint()));
  auto values = std::make_shared<std::vector<std::byte>>(message_bytes(1 << 20, 5));
  const std::weak_ptr<std::vector<std::byte>> watched = values;
  PendingReply reply = client.request(Payload().add(std::span(*values), values));
  values.reset();
  {
    const MessageEvent request = next_request(server);
    EXPECT_EQ(bytes_of(request.payload), message_bytes(1 << 20, 5));
    if (GetParam().in_memory) {
      EXPECT_EQ(request.payload.segments(0)[0].bytes.data(), watched.lock()->data());
    }
    server.reply(request, {});
  }
  reply.wait();
  for (const Deadline end = Clock::now() + 20s; !watched.expired() && Clock::now() < end;)
    std::this_thread::yield();
  EXPECT_TRUE(watched.expired());
}

// Requests of many lengths and priorities of several clients, answered by two threads in random
// order.
TEST_P(Messages, ThousandsOfRequestsAreAnsweredInRandomOrder) {
  const std::uint64_t seed = lockstep::testing::seed_of_this_run();
  server_options_.most_waiting = 500;
  MessageServer server(server_options_);
  std::mutex mutex;
  std::vector<MessageEvent> waiting;
  std::mt19937_64 random(seed);
  const auto answer_some = [&](const MessageEvent& request) {
    const std::lock_guard lock(mutex);
    waiting.push_back(request);
    std::shuffle(waiting.begin(), waiting.end(), random);
    for (std::size_t keep = random() % 50; waiting.size() > keep; waiting.pop_back())
      server.reply(waiting.back(), waiting.back().payload, static_cast<int>(random() % 3));
  };
  const Answerer first(server, answer_some), second(server, answer_some);
  const auto ask_many = [&](std::uint64_t who) {
    MessageClient client(client_options(server_options_, server.endpoint()));
    std::mt19937_64 own(seed + who);
    std::vector<std::pair<std::vector<std::byte>, PendingReply>> replies;
    for (std::uint64_t i = 0; i < 1500; ++i) {
      const bool is_long = own() % 100 == 0;
      auto bytes = message_bytes(own() % (is_long ? 700'000 : 300), own());
      RequestOptions options;
      options.priority = static_cast<int>(own() % 3);
      replies.emplace_back(bytes, client.request(Payload().add(bytes), options));
    }
    // The last ones stay with the server until others push them out.
    for (int i = 0; i < 200; ++i) client.request(Payload("more"));
    for (auto& [bytes, reply] : replies)
      if (bytes_of(reply.wait().payload) != bytes) return false;
    return true;
  };
  std::vector<std::jthread> clients;
  std::atomic<int> right = 0;
  for (std::uint64_t who = 0; who < 3; ++who)
    clients.emplace_back([&, who] { right += ask_many(who) ? 1 : 0; });
  const std::jthread flush([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::this_thread::yield();
      const std::lock_guard lock(mutex);
      for (; !waiting.empty(); waiting.pop_back())
        server.reply(waiting.back(), waiting.back().payload);
    }
  });
  for (std::jthread& one : clients) one.join();
  EXPECT_EQ(right, 3) << "seed " << seed;
}

TEST_P(Messages, HigherPrioritiesPassALongRequestOfALowerOne) {
  server_options_.most_waiting = 1;
  MessageServer server(server_options_);
  MessageClient client(client_options(server_options_, server.endpoint()));
  // Nobody takes the first, so that nothing more is read.
  std::vector<PendingReply> replies;
  replies.push_back(client.request(Payload("first")));
  const auto bytes = message_bytes(64 << 20, 1);
  replies.push_back(client.request(Payload().add(std::span(bytes), nullptr), {.priority = 0}));
  replies.push_back(client.request(Payload("urgent"), {.priority = 9}));
  std::vector<std::size_t> lengths;
  for (int i = 0; i < 3; ++i) lengths.push_back(next_request(server).payload.size());
  EXPECT_EQ(lengths.back(), bytes.size());
}

TEST_P(Messages, AnotherGenerationIsRefusedByName) {
  server_options_.generation = 4;
  MessageServer server(server_options_);
  MessageClientOptions options = client_options(server_options_, server.endpoint());
  options.generation = 3;
  MessageClient client(options);
  try {
    client.ask(Payload("push"), {.what = "push of w"});
    FAIL() << "no error";
  } catch (const StaleGeneration& error) {
    EXPECT_EQ(error.sent(), 3u);
    EXPECT_EQ(error.current(), 4u);
    EXPECT_EQ(std::string(error.what()), "push of w: " + to_string(server.endpoint()) +
                                             " is of generation 4, the request of 3");
  }
  client.set_generation(4);
  PendingReply current = client.request(Payload("push"));
  server.reply(next_request(server), {});
  EXPECT_EQ(current.wait().generation, 4u);
  server.set_generation(5);
  EXPECT_THROW(client.ask(Payload("push")), StaleGeneration);
  PendingReply any = client.request(Payload("join"), {.generation = kAnyGeneration});
  server.reply(next_request(server), {});
  EXPECT_EQ(any.wait().generation, 5u);
}

TEST_P(Messages, WhatTheServerCannotDoIsItsOwnWordsAtTheClient) {
  MessageServer server(server_options_);
  MessageClient client(client_options(server_options_, server.endpoint()));
  PendingReply reply = client.request(Payload("?"), {.what = "pull of w"});
  server.fail(next_request(server), "there is no key w");
  EXPECT_EQ(message_of<RequestFailed>([&] { reply.wait(); }),
            "pull of w: " + to_string(server.endpoint()) + ": there is no key w");
}

TEST_P(Messages, AServerThatDoesNotAnswerIsATimeoutThatNamesIt) {
  MessageServer server(server_options_);
  MessageClient client(client_options(server_options_, server.endpoint()));
  PendingReply reply = client.request(Payload("?"), {.what = "pull of w", .timeout = 50ms});
  const std::string text = message_of<Timeout>([&] { reply.wait(); });
  EXPECT_EQ(text.substr(0, text.find(" within")),
            "pull of w: " + to_string(server.endpoint()) + " did not answer");
  // The late answer is nobody's.
  server.reply(next_request(server), Payload("late"));
  PendingReply next = client.request(Payload("!"));
  server.reply(next_request(server), Payload("right"));
  EXPECT_EQ(next.wait().payload.text(), "right");
}

TEST_P(Messages, AbortEndsWhatIsUnderWayAndWhatComesLater) {
  MessageServer server(server_options_);
  MessageClient client(client_options(server_options_, server.endpoint()));
  PendingReply reply = client.request(Payload("?"));
  const std::jthread other([&] { client.abort("the user pressed a key"); });
  const std::string at = to_string(server.endpoint());
  EXPECT_EQ(message_of<Aborted>([&] { reply.wait(); }),
            "request: " + at + ": aborted: the user pressed a key");
  EXPECT_THROW(client.request(Payload("?")), Aborted);
  std::jthread waiting(
      [&] { EXPECT_THROW(while (server.receive(Clock::now() + 20s)){}, Aborted); });
  server.abort("over");
}

TEST_P(Messages, AClientThatHasNoRoomWaitsAndSaysSoAtItsDeadline) {
  server_options_.most_waiting_bytes = 1;
  MessageServer server(server_options_);
  MessageClientOptions options = client_options(server_options_, server.endpoint());
  options.most_unanswered = 10;
  MessageClient client(options);
  std::vector<PendingReply> replies;
  for (int i = 0; i < 10; ++i) replies.push_back(client.request(Payload("x")));
  EXPECT_THROW(client.request(Payload("x"), {.timeout = 30ms}), Timeout);
  std::jthread eleventh([&] { replies.push_back(client.request(Payload("x"))); });
  server.reply(next_request(server), {});
  eleventh.join();
  EXPECT_EQ(replies.size(), 11u);
}

// What is not taken is not read: the sender has it, not the server.
TEST_P(Messages, AServerThatTakesNothingHoldsNoMoreThanItSays) {
  server_options_.most_waiting_bytes = 4 << 20;
  MessageServer server(server_options_);
  MessageClient client(client_options(server_options_, server.endpoint()));
  const auto bytes = message_bytes(1 << 20, 3);
  std::vector<PendingReply> replies;
  for (int i = 0; i < 100; ++i)
    replies.push_back(client.request(Payload().add(std::span(bytes), nullptr)));
  for (int i = 0; i < 100; ++i) {
    const MessageEvent request = next_request(server);
    EXPECT_EQ(request.request, static_cast<std::uint64_t>(i) + 1);
    EXPECT_EQ(bytes_of(request.payload), bytes);
    server.reply(request, {});
  }
  for (PendingReply& reply : replies) reply.wait();
}

TEST_P(Messages, TooLongARequestIsRefusedAtHome) {
  server_options_.longest_message = 1000;
  MessageServer server(server_options_);
  MessageClient client(client_options(server_options_, server.endpoint()));
  EXPECT_EQ(message_of<InvalidArgument>(
                [&] { client.request(Payload(std::string(1001, 'x')), {.what = "push"}); }),
            "push: 1001 bytes for " + to_string(server.endpoint()) + ", expected at most 1000");
}

TEST_P(Messages, AClientThatSendsMoreThanTheServerSaysIsDropped) {
  server_options_.longest_message = 1000;
  MessageServer server(server_options_);
  MessageClientOptions options = client_options(server_options_, server.endpoint());
  options.longest_message = 10'000;
  options.reconnects = false;
  MessageClient client(options);
  EXPECT_THROW(client.ask(Payload(std::string(1001, 'x'))), PeerLost);
  EXPECT_EQ(next_end(server).reason, "a message of more than 1000 bytes");
}

TEST_P(Messages, AClientThatLeavesIsKnownToHaveLeft) {
  MessageServer server(server_options_);
  std::uint64_t id = 0;
  {
    MessageClient client(client_options(server_options_, server.endpoint()));
    id = client.id();
  }
  const MessageEvent end = next_end(server);
  EXPECT_EQ(end.kind, MessageEvent::Kind::left);
  EXPECT_EQ(end.peer.id, id);
  EXPECT_TRUE(server.peers().empty());
}

TEST_P(Messages, AClientThatIsAbortedIsLost) {
  MessageServer server(server_options_);
  {
    MessageClient client(client_options(server_options_, server.endpoint()));
    client.abort("something is broken");
  }
  EXPECT_EQ(next_end(server).kind, MessageEvent::Kind::lost);
}

// One request may wait for hours while others come and are answered.
TEST_P(Messages, OfAClientThatDoesNotReconnectNothingIsAskedAgain) {
  MessageServer server(server_options_);
  MessageClientOptions options = client_options(server_options_, server.endpoint());
  options.reconnects = false;
  MessageClient client(options);
  PendingReply open = client.request(Payload("when it is over"));
  const MessageEvent first = next_request(server);
  for (int i = 0; i < 100; ++i) {
    PendingReply reply = client.request(Payload("now"));
    const MessageEvent request = next_request(server);
    EXPECT_FALSE(request.is_repeated);
    server.reply(request, Payload("yes"));
    server.reply(request, Payload("twice"));
    EXPECT_EQ(reply.wait().payload.text(), "yes");
  }
  server.reply(first, Payload("over"));
  EXPECT_EQ(open.wait().payload.text(), "over");
  server.drop(first.peer.id);
  EXPECT_THROW(client.ask(Payload("?")), PeerLost);
}

TEST_P(Messages, AWrongSecretIsRefusedAtOnce) {
  MessageServer server(server_options_);
  MessageClientOptions options = client_options(server_options_, server.endpoint());
  options.secret = "guess";
  EXPECT_THROW(MessageClient client(options), Refused);
  for (const Deadline end = Clock::now() + 20s;
       server.refusals().count() == 0 && Clock::now() < end;)
    std::this_thread::yield();
  EXPECT_EQ(server.refusals().count(), 1u);
  ASSERT_FALSE(server.refusals().last().empty());
  EXPECT_NE(server.refusals().last()[0].find("it does not know the job's secret"),
            std::string::npos);
}

TEST_P(Messages, WhatWasAnsweredLastIsSentBeforeTheServerGoes) {
  auto server = std::make_unique<MessageServer>(server_options_);
  MessageClientOptions options = client_options(server_options_, server->endpoint());
  options.reconnects = false;
  MessageClient client(options);
  PendingReply reply = client.request(Payload("goodbye"));
  const MessageEvent request = next_request(*server);
  server->reply(request, Payload().add(message_bytes(3'000'000, 9)));
  server.reset();
  EXPECT_EQ(bytes_of(reply.wait().payload), message_bytes(3'000'000, 9));
  EXPECT_THROW(client.ask(Payload("again"), {.timeout = 20s}), PeerLost);
}

// The server goes with one request answered and one not, and another takes its place: that is
// another memory, so both requests are new to it.
TEST_P(Messages, AClientFindsAServerThatComesBackAndAsksAgain) {
  auto server = std::make_unique<MessageServer>(server_options_);
  server_options_.listen = server->endpoint();
  MessageClient client(client_options(server_options_, server->endpoint()));
  PendingReply reply = client.request(Payload("push"), {.timeout = 30s});
  EXPECT_EQ(next_request(*server).payload.text(), "push");
  server.reset();
  server = std::make_unique<MessageServer>(server_options_);
  const MessageEvent again = next_request(*server);
  EXPECT_EQ(again.payload.text(), "push");
  server->reply(again, Payload("done"));
  EXPECT_EQ(reply.wait().payload.text(), "done");
}

// The connection is cut after each of some requests has come, before or after its answer.
TEST_P(Messages, ARepeatedRequestIsAppliedOnceAndAnsweredOnce) {
  MessageServer server(server_options_);
  MessageClient client(client_options(server_options_, server.endpoint()));
  PendingReply first = client.request(Payload("push"), {.timeout = 30s});
  const MessageEvent request = next_request(server);
  server.drop(request.peer.id);
  EXPECT_EQ(next_end(server).kind, MessageEvent::Kind::lost);
  const auto back = server.receive(Clock::now() + 20s);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->kind, MessageEvent::Kind::connected);
  EXPECT_EQ(back->peer.id, client.id());
  PendingReply second = client.request(Payload("other"));
  EXPECT_EQ(next_request(server).payload.text(), "other");  // and not push again
  server.reply(request, Payload("applied"));
  EXPECT_EQ(first.wait().payload.text(), "applied");
}

TEST_P(Messages, AnAnswerThatWasLostComesAgain) {
  MessageServer server(server_options_);
  MessageClient client(client_options(server_options_, server.endpoint()));
  for (const std::size_t count : {10u, 1'000'000u}) {
    PendingReply reply = client.request(Payload("pull"), {.timeout = 30s});
    const MessageEvent request = next_request(server);
    server.drop(request.peer.id);
    EXPECT_EQ(next_end(server).kind, MessageEvent::Kind::lost);
    server.reply(request, Payload().add(message_bytes(count, 3)));
    const Answerer again(server, [&](const MessageEvent& event) {
      EXPECT_TRUE(event.is_repeated && count > 10);
      server.reply(event, Payload().add(message_bytes(count, 3)));
    });
    EXPECT_EQ(bytes_of(reply.wait().payload), message_bytes(count, 3));
  }
}

TEST_P(Messages, SeveralServersAndClientsLiveInOneProcess) {
  MessageServer one(server_options_), two(server_options_);
  MessageClient to_one(client_options(server_options_, one.endpoint()));
  MessageClient to_two(client_options(server_options_, two.endpoint()));
  MessageClient again(client_options(server_options_, two.endpoint()));
  PendingReply a = to_one.request(Payload("1")), b = to_two.request(Payload("2"));
  one.reply(next_request(one), Payload("one"));
  two.reply(next_request(two), Payload("two"));
  EXPECT_EQ(a.wait().payload.text(), "one");
  EXPECT_EQ(b.wait().payload.text(), "two");
}

INSTANTIATE_TEST_SUITE_P(Wires, Messages, ::testing::ValuesIn(message_worlds()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::comm
