// SPDX-License-Identifier: Apache-2.0
// Requests that come again, that wait while the generation changes or that are given up half sent:
// one side is real, of the other side a test says each frame itself.
#include "lockstep/comm/detail/assembler.h"
#include "lockstep/comm/detail/message_wire.h"
#include "tests/comm/message_worlds.h"

namespace lockstep::comm {
namespace {

using detail::Frame;
using detail::FrameHeader;

template <class F>
bool happens(const F& look) {
  for (const Deadline end = Clock::now() + 20s; Clock::now() < end; std::this_thread::yield())
    if (look()) return true;
  return false;
}

// A client frame by frame; it is lost when it goes.
class FrameClient {
 public:
  FrameClient(const MessageServerOptions& options, const Endpoint& at, std::uint64_t id = 7,
              bool reconnects = true) {
    MessageClientOptions own = client_options(options, at);
    own.reconnects = reconnects;
    wire_ = detail::connect_in_memory(own, id, waker_, Clock::now() + 20s);
  }

  void ask(std::uint64_t number, std::uint64_t generation = 0, std::uint64_t first_open = 0) {
    Frame frame;
    frame.header.first_open = first_open;
    frame.header.kind = FrameHeader::Kind::request;
    frame.header.message = number;
    frame.header.generation = generation;
    ASSERT_TRUE(wire_->send(0, frame));
  }
  detail::Message answer() {
    while (true)
      if (auto message = take_frame()) return *message;
  }
  // The message that it ends.
  std::optional<detail::Message> take_frame() {
    std::optional<detail::WireEvent> event;
    const auto has_come = [&] {
      event = wire_->next(true);
      return event && event->kind == detail::WireEvent::Kind::frame;
    };
    if (!happens(has_come)) throw Timeout("no answer came", -1, "", "test");
    return assembler_.feed(std::move(event->frame));
  }

 private:
  detail::Waker waker_;
  std::unique_ptr<detail::MessageWire> wire_;
  detail::Assembler assembler_{1 << 20};
};

class MessageRepeats : public ::testing::Test {
 protected:
  void SetUp() override {
    options_ = server_options({"memory", false, true});
    options_.heartbeat = 10ms;
  }
  // What comes of the client's first request, answered at once.
  static void answer_first(MessageServer& server, FrameClient& client) {
    client.ask(1);
    server.reply(next_request(server), Payload("first"));
    EXPECT_EQ(client.answer().payload.text(), "first");
  }
  MessageServerOptions options_;
};

TEST_F(MessageRepeats, ARequestThatWaitsWhenTheGenerationChangesIsStale) {
  MessageServer server(options_);
  FrameClient client(options_, server.endpoint());
  answer_first(server, client);
  client.ask(2);
  client.ask(1);  // its answer comes again at once: the other request waits by then
  EXPECT_EQ(client.answer().payload.text(), "first");
  server.set_generation(1);
  client.ask(3, 1);
  EXPECT_EQ(next_request(server).request, 3u);
  const detail::Message stale = client.answer();
  EXPECT_EQ(stale.header.kind, FrameHeader::Kind::stale);
  EXPECT_EQ(stale.header.message, 2u);
  EXPECT_EQ(stale.header.generation, 1u);
}

TEST_F(MessageRepeats, WhatWasAnsweredBeforeTheGenerationChangedIsAnsweredAgain) {
  MessageServer server(options_);
  FrameClient client(options_, server.endpoint());
  answer_first(server, client);
  server.set_generation(1);
  client.ask(1);
  const detail::Message again = client.answer();
  EXPECT_EQ(again.header.kind, FrameHeader::Kind::reply);
  EXPECT_EQ(again.payload.text(), "first");
  client.ask(2);
  EXPECT_EQ(client.answer().header.kind, FrameHeader::Kind::stale);
}

TEST_F(MessageRepeats, AClientWithAnUnansweredRequestIsNotForgotten) {
  options_.remember = 1ms;
  MessageServer server(options_);
  auto client = std::make_unique<FrameClient>(options_, server.endpoint());
  client->ask(1);
  const MessageEvent request = next_request(server);
  client.reset();
  EXPECT_EQ(next_end(server).kind, MessageEvent::Kind::lost);
  EXPECT_FALSE(server.receive(Clock::now() + 100ms));  // long enough to forget it
  client = std::make_unique<FrameClient>(options_, server.endpoint());
  client->ask(1);
  client->ask(2);
  EXPECT_EQ(next_request(server).request, 2u);
  server.reply(request, Payload("once"));
  EXPECT_EQ(client->answer().payload.text(), "once");
}

TEST_F(MessageRepeats, WhatAForgottenClientAsksAgainFailsAndWhatIsNewDoesNot) {
  options_.remember = 1ms;
  MessageServer server(options_);
  auto client = std::make_unique<FrameClient>(options_, server.endpoint());
  answer_first(server, *client);
  client.reset();
  EXPECT_EQ(next_end(server).kind, MessageEvent::Kind::lost);
  EXPECT_FALSE(server.receive(Clock::now() + 100ms));
  client = std::make_unique<FrameClient>(options_, server.endpoint());
  client->ask(1);
  client->ask(2);
  EXPECT_EQ(next_request(server).request, 2u);
  const detail::Message failed = client->answer();
  EXPECT_EQ(failed.header.kind, FrameHeader::Kind::failed);
  EXPECT_EQ(failed.header.message, 1u);
  EXPECT_EQ(failed.payload.text(),
            "it was asked before, and whether it was done is not known any more: this client was "
            "gone for longer than 0.0 s");
}

// Something on the way has doubled it.
TEST_F(MessageRepeats, ALateCopyOfARequestIsNotSeenAgain) {
  MessageServer server(options_);
  FrameClient client(options_, server.endpoint());
  answer_first(server, client);
  client.ask(2, 0, 2);  // the answer to the first has come
  EXPECT_EQ(next_request(server).request, 2u);
  client.ask(1);
  client.ask(3, 0, 2);
  EXPECT_EQ(next_request(server).request, 3u);
}

TEST_F(MessageRepeats, ACopyIsNotSeenAgainWhereTheClientNeverComesBack) {
  MessageServer server(options_);
  FrameClient client(options_, server.endpoint(), 7, false);
  answer_first(server, client);
  client.ask(1);
  client.ask(2);
  EXPECT_EQ(next_request(server).request, 2u);
}

// A long one of low priority, of which the link has taken a part.
TEST_F(MessageRepeats, AnAnswerThatIsBeingSentIsNotSentAgain) {
  MessageServer server(options_);
  FrameClient client(options_, server.endpoint());
  client.ask(1);
  Payload parts;
  for (int i = 0; i < 200; ++i) parts.add(std::to_string(i));
  server.reply(next_request(server), parts, -1);
  EXPECT_FALSE(client.take_frame());
  client.ask(1);
  client.ask(2);
  const MessageEvent second = next_request(server);
  const detail::Message whole = client.answer();
  ASSERT_EQ(whole.payload.parts(), 200u);
  for (std::size_t i = 0; i < 200; ++i) EXPECT_EQ(whole.payload.text(i), std::to_string(i));
  server.reply(second, Payload("next"));
  EXPECT_EQ(client.answer().header.message, 2u);
}

// As the server sees it: the rest of a request that is given up does not come, and before anything
// else begins it is told so.
TEST_F(MessageRepeats, GivingUpAHalfSentRequestIsSaidBeforeWhatWaits) {
  const detail::Waker waker;
  const auto server = detail::listen_in_memory(options_, waker);
  MessageClient client(client_options(options_, server->endpoint()));
  const auto bytes = message_bytes(100 * Payload::kLongestSegment, 1);
  RequestOptions urgent{.priority = 1};
  PendingReply given_up =
      client.request(Payload().add(std::span(bytes), nullptr), {.timeout = 300ms});
  PendingReply waiting = client.request(Payload().add(std::span(bytes), nullptr));
  EXPECT_THROW(given_up.wait(), Timeout);  // the wire is full by then
  PendingReply other = client.request(Payload("other"), urgent);
  std::vector<Frame> frames;
  ASSERT_TRUE(happens([&] {
    if (auto event = server->next(true); event && event->kind == detail::WireEvent::Kind::frame)
      frames.push_back(std::move(event->frame));
    return frames.size() >= 70;
  }));
  std::size_t begun = 0;
  while (begun < frames.size() && frames[begun].header.message == 1 &&
         frames[begun].header.kind == FrameHeader::Kind::request)
    ++begun;
  ASSERT_LT(begun, frames.size());
  EXPECT_EQ(frames[begun].header.kind, FrameHeader::Kind::cancel);
  EXPECT_EQ(frames[begun].header.message, 1u);
}

}  // namespace
}  // namespace lockstep::comm
