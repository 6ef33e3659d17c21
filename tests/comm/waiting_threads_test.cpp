// SPDX-License-Identifier: Apache-2.0
// Threads that wait for messages receive them themselves, one at a time: what becomes of the
// others.
#include <atomic>
#include <future>
#include <latch>
#include <set>

#include "lockstep/comm/detail/brief_spin.h"
#include "lockstep/comm/detail/wire_turn.h"
#include "tests/comm/message_worlds.h"
#include "tests/message.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::message_of;

class WaitingThreads : public ::testing::TestWithParam<MessageWorld> {
 protected:
  MessageServerOptions options_ = server_options(GetParam());
  std::unique_ptr<MessageServer> server_ = std::make_unique<MessageServer>(options_);

  MessageClientOptions client(bool reconnects = true) {
    MessageClientOptions options = client_options(options_, server_->endpoint());
    options.reconnects = reconnects;
    return options;
  }
};

// The answer, or the error's text, of a thread that is known to wait for it from now on, if it has
// not come before.
class Waiter {
 public:
  explicit Waiter(PendingReply reply)
      : result_(std::async(std::launch::async, [this, reply = std::move(reply)]() mutable {
          std::string text;
          try {
            text = reply.wait([this] { tell(); }).payload.text();
          } catch (const Error& error) {
            text = error.what();
          }
          tell();
          return text;
        })) {
    waits_.wait();
  }
  std::string result() { return result_.get(); }

 private:
  void tell() {
    if (!told_) waits_.count_down();
    told_ = true;
  }
  std::latch waits_{1};
  bool told_ = false;
  std::future<std::string> result_;
};

void expect_beginning(const std::string& text, const std::string& begin) {
  EXPECT_TRUE(text.starts_with(begin)) << text;
}

TEST_P(WaitingThreads, EachGetsItsOwnAnswerInWhateverOrderTheyCome) {
  // Every other answer is held back until the next one has gone.
  std::vector<MessageEvent> held;
  const Answerer answerer(*server_, [&](const MessageEvent& event) {
    held.push_back(event);
    if (held.size() < 2) return;
    server_->reply(held[1], held[1].payload);
    server_->reply(held[0], held[0].payload);
    held.clear();
  });
  MessageClient client(this->client());
  const auto ask = [&](const std::string& who) {
    for (int i = 0; i < 200; ++i) {
      const std::string first = who + std::to_string(i), second = first + "+";
      PendingReply one = client.request(Payload(first)), other = client.request(Payload(second));
      EXPECT_EQ(other.wait().payload.text(), second);
      EXPECT_EQ(one.wait().payload.text(), first);
    }
  };
  std::vector<std::jthread> threads;
  for (const char* who : {"a", "b", "c"}) threads.emplace_back(ask, who);
}

TEST_P(WaitingThreads, OneWhoseDeadlinePassesLeavesTheAnswersOfOthersToThem) {
  MessageClient client(this->client());
  PendingReply hurried = client.request(Payload("1"), {.what = "hurried", .timeout = 2s});
  PendingReply patient = client.request(Payload("2"));
  const MessageEvent first = next_request(*server_), second = next_request(*server_);
  Waiter one(std::move(hurried)), other(std::move(patient));
  expect_beginning(one.result(), "hurried: ");
  server_->reply(first, Payload("too late"));
  server_->reply(second, Payload("in time"));
  EXPECT_EQ(other.result(), "in time");
}

TEST_P(WaitingThreads, AnAnswerComesToOneWhileTheDeadlineOfAnotherPasses) {
  MessageClient client(this->client());
  PendingReply patient = client.request(Payload("1"));
  const MessageEvent first = next_request(*server_);
  Waiter one(std::move(patient));
  const auto ask = [&] { client.ask(Payload("2"), {.what = "hurried", .timeout = 100ms}); };
  expect_beginning(message_of<Timeout>(ask), "hurried: ");
  server_->reply(first, Payload("in time"));
  EXPECT_EQ(one.result(), "in time");
}

TEST_P(WaitingThreads, ACheckThatThrowsEndsOneWaitAndNoOther) {
  MessageClient client(this->client());
  PendingReply checked = client.request(Payload("1")), patient = client.request(Payload("2"));
  next_request(*server_);
  const MessageEvent second = next_request(*server_);
  std::atomic<bool> stops = false;
  auto ended = std::async(std::launch::async, [&] {
    checked.wait([&] {
      if (stops) throw InvalidArgument("enough");
    });
  });
  Waiter other(std::move(patient));
  stops = true;
  EXPECT_EQ(message_of<InvalidArgument>([&] { ended.get(); }), "enough");
  server_->reply(second, Payload("here"));
  EXPECT_EQ(other.result(), "here");
}

TEST_P(WaitingThreads, AllHearThatTheServerIsLost) {
  MessageClient client(this->client(false));
  PendingReply first = client.request(Payload("1"), {.what = "one"});
  PendingReply second = client.request(Payload("2"), {.what = "other"});
  const std::string at = to_string(server_->endpoint());
  Waiter one(std::move(first)), other(std::move(second));
  server_.reset();
  expect_beginning(one.result(), "one: " + at + " was lost: ");
  expect_beginning(other.result(), "other: " + at + " was lost: ");
}

TEST_P(WaitingThreads, AServerThatComesAgainAnswersThoseWhoWait) {
  options_.listen = server_->endpoint();
  MessageClient client(this->client());
  PendingReply first = client.request(Payload("1")), second = client.request(Payload("2"));
  Waiter one(std::move(first)), other(std::move(second));
  server_.reset();
  server_ = std::make_unique<MessageServer>(options_);
  const Answerer echo(*server_,
                      [&](const MessageEvent& event) { server_->reply(event, event.payload); });
  EXPECT_EQ(one.result(), "1");
  EXPECT_EQ(other.result(), "2");
}

TEST_P(WaitingThreads, AClientThatGoesEndsTheirWaits) {
  auto client = std::make_unique<MessageClient>(this->client());
  PendingReply first = client->request(Payload("1"), {.what = "one"});
  PendingReply second = client->request(Payload("2"), {.what = "other"});
  PendingReply later = client->request(Payload("3"), {.what = "later"});
  const std::string at = to_string(server_->endpoint());
  Waiter one(std::move(first)), other(std::move(second));
  client.reset();
  EXPECT_EQ(one.result(), "one: " + at + ": aborted: the client is closed");
  EXPECT_EQ(other.result(), "other: " + at + ": aborted: the client is closed");
  EXPECT_TRUE(later.is_done());
}

TEST_P(WaitingThreads, AnAnswerForWhichNobodyWaitsIsSeenToHaveCome) {
  const Answerer echo(*server_,
                      [&](const MessageEvent& event) { server_->reply(event, event.payload); });
  MessageClient client(this->client());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(client.ask(Payload("asked")).payload.text(), "asked");
    PendingReply reply = client.request(Payload("polled"));
    for (const Deadline end = Clock::now() + 20s; !reply.is_done() && Clock::now() < end;)
      std::this_thread::yield();
    ASSERT_TRUE(reply.is_done());
    EXPECT_EQ(reply.wait().payload.text(), "polled");
  }
}

TEST_P(WaitingThreads, OneWithoutRoomGoesOnWhenAnAnswerComes) {
  MessageClientOptions options = client();
  options.most_unanswered = 1;
  MessageClient client(options);
  PendingReply first = client.request(Payload("1"));
  const MessageEvent event = next_request(*server_);
  auto second = std::async(std::launch::async, [&] { return client.ask(Payload("2")); });
  server_->reply(event, Payload("one"));
  const MessageEvent next = next_request(*server_);
  EXPECT_EQ(next.payload.text(), "2");
  server_->reply(next, Payload("two"));
  EXPECT_EQ(second.get().payload.text(), "two");
  EXPECT_EQ(first.wait().payload.text(), "one");
}

TEST_P(WaitingThreads, SeveralReceiversGetEachRequestOnce) {
  constexpr int kRequests = 300;
  std::mutex mutex;
  std::multiset<std::string> seen;
  const auto answer = [&](const MessageEvent& event) {
    const std::lock_guard lock(mutex);
    seen.insert(event.payload.text());
    server_->reply(event, event.payload);
  };
  const Answerer one(*server_, answer), two(*server_, answer), three(*server_, answer);
  MessageClient client(this->client());
  std::vector<PendingReply> replies;
  for (int i = 0; i < kRequests; ++i) {
    replies.push_back(client.request(Payload(std::to_string(i))));
    if (i % 3 == 0) replies.back().is_done();
  }
  for (int i = 0; i < kRequests; ++i)
    EXPECT_EQ(replies[static_cast<std::size_t>(i)].wait().payload.text(), std::to_string(i));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kRequests));
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), seen.size());
}

TEST_P(WaitingThreads, AReceiverHearsOfAnAbort) {
  auto received = std::async(std::launch::async, [&] {
    return message_of<Aborted>([&] {
      while (server_->receive(Clock::now() + 20s)) {
      }
    });
  });
  std::this_thread::sleep_for(20ms);
  server_->abort("enough");
  EXPECT_EQ(received.get(), "receive: aborted: enough");
}

INSTANTIATE_TEST_SUITE_P(Worlds, WaitingThreads, ::testing::ValuesIn(message_worlds()),
                         [](const auto& world) { return world.param.name; });

// The wire's own thread, which notes when it has its turn.
class OwnThread {
 public:
  OwnThread(std::mutex& mutex, detail::WireTurn& turn)
      : mutex_(mutex), turn_(turn), thread_([this](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          while (turn_.await(lock, [&] { return stop.stop_requested(); })) {
            ++turns_;
            turn_.leave();
            had_one_.notify_all();
          }
        }) {}
  ~OwnThread() {
    const std::lock_guard lock(mutex_);
    thread_.request_stop();
    turn_.call();
  }
  void await_turns(std::unique_lock<std::mutex>& lock, int turns) {
    had_one_.wait(lock, [&] { return turns_ >= turns; });
  }
  int turns() const { return turns_; }

 private:
  std::mutex& mutex_;
  detail::WireTurn& turn_;
  int turns_ = 0;
  std::condition_variable had_one_;
  std::jthread thread_;
};

TEST(WireTurn, TheOwnThreadHasItWhereNobodyWaitsAndAtOnceWhenItIsCalled) {
  std::mutex mutex;
  detail::WireTurn turn;
  OwnThread own(mutex, turn);
  std::unique_lock lock(mutex);
  own.await_turns(lock, 3);
  turn.take();
  EXPECT_TRUE(turn.is_of_caller());
  const int before = own.turns();
  lock.unlock();
  std::this_thread::sleep_for(30ms);
  lock.lock();
  EXPECT_EQ(own.turns(), before);
  turn.leave();
  turn.call();
  own.await_turns(lock, before + 1);
  EXPECT_TRUE(turn.is_free());
  own.await_turns(lock, before + 2);  // it comes by itself
  lock.unlock();
}

TEST(BriefSpin, LooksAgainAndAgainUntilItWasInVain) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core: it never spins";
  detail::BriefSpin spin;
  int looks = 0;
  EXPECT_TRUE(spin.run(Clock::now() + 20s, [&] { return true; }));
  EXPECT_FALSE(spin.run(Clock::now(), [&] { return ++looks > 0; })) << "nobody has time for it";
  EXPECT_EQ(looks, 0);
  EXPECT_FALSE(spin.run(Clock::now() + 20s, [&] { return false; }));
  EXPECT_FALSE(spin.run(Clock::now() + 20s, [&] { return ++looks > 0; })) << "it was in vain";
  EXPECT_EQ(looks, 0);
  spin.note_sleep();  // a short one, unless this thread was held up
  for (int tries = 0; tries < 1000 && looks == 0; ++tries) {
    spin.run(Clock::now() + 20s, [&] { return ++looks > 0; });
    spin.note_sleep();
  }
  EXPECT_GT(looks, 0);
}

}  // namespace
}  // namespace lockstep::comm
