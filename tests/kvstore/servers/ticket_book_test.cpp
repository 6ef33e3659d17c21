// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/ticket_book.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/kvstore/servers/kept_answers.h"
#include "tests/message.h"
#include "tests/seed.h"

namespace lockstep::kvstore {
namespace {

using testing::KeptAnswers, testing::message_of;

constexpr std::uint64_t kEpoch = 7;
// Of the next generation.
constexpr std::uint64_t kNextEpoch = (std::uint64_t{1} << 32) + 3;

class TicketBookTest : public ::testing::Test {
 protected:
  comm::MessageEvent event() {
    comm::MessageEvent event;
    event.request = ++requests;
    return event;
  }

  void open(std::int64_t first, std::int64_t end, std::int64_t per_step,
            std::uint64_t bound = wire::kAnySteps) {
    book.open(event(), {"weights", book.epoch(), first, end, per_step, bound}, answers, now);
  }
  // By other workers.
  void go_on(std::int64_t first, std::int64_t end, std::int64_t per_step,
             std::uint64_t bound = wire::kAnySteps) {
    book.open(event(), {"weights", kNextEpoch, first, end, per_step, bound, true}, answers, now);
    sequences.clear();
  }
  wire::TicketsDone done() {
    book.read(event(), answers);
    return wire::decode<wire::TicketsDone>(answers.replies.back().second.text(0));
  }
  // The number of the request.
  std::uint64_t take(std::uint32_t worker, bool stop = false) {
    return take_again(worker, ++sequences[worker], stop);
  }
  std::uint64_t take_again(std::uint32_t worker, std::uint64_t sequence, bool stop = false) {
    const comm::MessageEvent request = event();
    book.take(request, {"weights", book.epoch(), worker, sequence, stop, 1000}, answers, now);
    return request.request;
  }
  void end(std::uint32_t worker, std::int64_t ticket, bool done = true) {
    book.end(event(), {"weights", book.epoch(), worker, ticket, done, 2.0, 0.5}, answers, now);
  }

  std::optional<wire::GivenTicket> answer_to(std::uint64_t request) {
    for (const auto& [number, payload] : answers.replies)
      if (number == request) return wire::decode<wire::GivenTicket>(payload.text(0));
    return {};
  }
  // -1: no more of them.
  std::int64_t ticket_of(std::uint64_t request) {
    const auto given = answer_to(request);
    if (!given) return -2;
    return given->kind == wire::GivenTicket::ticket ? given->number : -1;
  }
  std::string failure_of(std::uint64_t request) {
    for (const auto& [number, why] : answers.failures)
      if (number == request) return why;
    return {};
  }

  // Of those who have waited for long.
  void remind() {
    for (const wire::RemindTicket& one : book.reminders(now)) book.remind(event(), one, answers);
  }

  std::int64_t most_steps_ahead(std::uint64_t bound, std::mt19937_64& random);

  TicketBook::Time now{};
  TicketBook book{kEpoch, now};
  KeptAnswers answers;
  std::uint64_t requests = 0;
  std::map<std::uint32_t, std::uint64_t> sequences;
};

TEST_F(TicketBookTest, DealsEachTicketOnceInOrderAndThenNone) {
  open(10, 13, 3);
  EXPECT_EQ(ticket_of(take(0)), 10);
  EXPECT_EQ(ticket_of(take(1)), 11);
  EXPECT_EQ(ticket_of(take(0)), 12);
  const auto none = answer_to(take(1));
  ASSERT_TRUE(none);
  EXPECT_EQ(none->kind, wire::GivenTicket::none);
  EXPECT_EQ(none->end, 13);
}

TEST_F(TicketBookTest, ARequestThatComesAgainHasTheSameAnswer) {
  open(0, 9, 3);
  take(0);
  take(0);
  EXPECT_EQ(ticket_of(take_again(0, 1)), 0);
  EXPECT_EQ(ticket_of(take_again(0, 2)), 1);
  EXPECT_EQ(ticket_of(take(0)), 2);
}

TEST_F(TicketBookTest, ATicketTooFarAheadWaitsForTheOldestStep) {
  open(0, 20, 2, 1);
  EXPECT_EQ(ticket_of(take(0)), 0);
  for (std::int64_t ticket = 1; ticket < 4; ++ticket) {
    EXPECT_EQ(ticket_of(take(1)), ticket);
    end(1, ticket);
  }
  const std::uint64_t waiting = take(1);  // of step 2, while step 0 is under way
  EXPECT_FALSE(answer_to(waiting));
  end(0, 0);
  EXPECT_EQ(ticket_of(waiting), 4);
  EXPECT_EQ(answer_to(waiting)->ahead, 0U);
}

// Four workers, the last one slow, ahead of the tickets that a plain list says are not applied.
std::int64_t TicketBookTest::most_steps_ahead(std::uint64_t bound, std::mt19937_64& random) {
  constexpr std::int64_t kPerStep = 3, kFirst = 6, kLast = kFirst + 300;
  book = TicketBook(kEpoch, now);
  sequences.clear();
  open(kFirst, kLast, kPerStep, bound);
  std::set<std::int64_t> unapplied;
  for (std::int64_t ticket = kFirst; ticket < kLast; ++ticket) unapplied.insert(ticket);
  std::map<std::uint32_t, std::uint64_t> asked;
  std::map<std::uint32_t, std::int64_t> has;
  std::int64_t most = 0;
  const auto look_at_answers = [&] {
    std::erase_if(asked, [&](const auto& one) {
      const std::int64_t ticket = ticket_of(one.second);
      if (ticket < 0) return ticket == -1;
      has[one.first] = ticket;
      most = std::max(most, ticket / kPerStep - *unapplied.begin() / kPerStep);
      return true;
    });
    answers.replies.clear();
  };
  while (!unapplied.empty()) {
    const auto worker = static_cast<std::uint32_t>(random() % 4);
    if (!asked.contains(worker) && !has.contains(worker)) asked[worker] = take(worker);
    look_at_answers();
    if (!has.contains(worker) || (worker == 3 && random() % 32 != 0)) continue;
    unapplied.erase(has[worker]);
    end(worker, has[worker]);
    has.erase(worker);
    look_at_answers();
  }
  return most;
}

TEST_F(TicketBookTest, TheBoundIsReachedAndNeverExceededWhoeverIsSlow) {
  std::mt19937_64 random(testing::seed_of_this_run());
  for (const std::uint64_t bound : {0, 1, 3})
    EXPECT_EQ(most_steps_ahead(bound, random), static_cast<std::int64_t>(bound));
}

TEST_F(TicketBookTest, AWishToStopEndsWithTheStepThatWasBegun) {
  open(0, 30, 3);
  for (int i = 0; i < 4; ++i) take(0);
  EXPECT_EQ(ticket_of(take(1, true)), 4);
  EXPECT_EQ(ticket_of(take(0)), 5);
  const auto none = answer_to(take(0));
  EXPECT_EQ(none->kind, wire::GivenTicket::none);
  EXPECT_EQ(none->end, 6);
  EXPECT_TRUE(none->stop);
}

TEST_F(TicketBookTest, ATicketThatCannotBeDoneEndsTheDealingAndNobodyWaitsForIt) {
  open(0, 30, 2, 0);
  take(0);
  take(1);
  const std::uint64_t waiting = take(1);
  EXPECT_FALSE(answer_to(waiting));
  end(0, 0, false);
  EXPECT_EQ(ticket_of(waiting), -1);
}

TEST_F(TicketBookTest, AWorkerThatLeavesWithATicketIsNamedToThoseWhoWaitAndWhoAsk) {
  open(0, 30, 2, 0);
  take(0);
  take(1);
  const std::uint64_t waiting = take(1);
  book.worker_left(0, answers);
  EXPECT_EQ(failure_of(waiting), "worker 0 has left with ticket 0, of step 0");
  EXPECT_EQ(message_of([&] { take(1); }), "worker 0 has left with ticket 0, of step 0");
}

TEST_F(TicketBookTest, WhoWaitsAsksAgainWhileOthersGoOnAndIsToldWhomForWhereNobodyDoes) {
  open(0, 30, 2, 0);
  take(0);
  take(1);
  const std::uint64_t first = take(1);
  now += std::chrono::milliseconds(600);
  remind();
  EXPECT_EQ(answer_to(first)->kind, wire::GivenTicket::again);
  const std::uint64_t second = take(1);
  now += std::chrono::milliseconds(401);
  remind();
  const auto stuck = answer_to(second);
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->kind, wire::GivenTicket::stuck);
  EXPECT_EQ(stuck->worker, 0U);
  EXPECT_EQ(stuck->number, 0);
}

TEST_F(TicketBookTest, WhatALostWorkerHadGoesToOthersFirstAndWhatIsDoneStaysSo) {
  open(6, 12, 3);
  for (int i = 0; i < 4; ++i) take(static_cast<std::uint32_t>(i % 2));  // 0 has 6 and 8, 1 has 7, 9
  end(0, 6);
  end(1, 9);
  go_on(6, 12, 3);
  std::vector<std::int64_t> dealt;
  for (int i = 0; i < 4; ++i) dealt.push_back(ticket_of(take(0)));
  EXPECT_EQ(dealt, (std::vector<std::int64_t>{7, 8, 10, 11}));
  EXPECT_EQ(ticket_of(take(0)), -1);
  EXPECT_EQ(done().tickets, 2);
  for (const std::int64_t ticket : dealt) end(0, ticket);
  EXPECT_EQ(done().tickets, 6);
  EXPECT_EQ(done().loss, 12.0);
  open(12, 15, 3);
  EXPECT_EQ(done().tickets, 0);
  EXPECT_EQ(done().of_run, 6);
}

TEST_F(TicketBookTest, WhoWaitedWhenTheWorkersChangedIsTold) {
  open(0, 30, 2, 0);
  take(0);
  take(1);
  const std::uint64_t waiting = take(1);
  go_on(0, 30, 2, 0);
  EXPECT_EQ(failure_of(waiting), "other workers go on");
  EXPECT_EQ(ticket_of(take(1)), 0);
  EXPECT_EQ(ticket_of(take(1)), 1);
}

TEST_F(TicketBookTest, AWishToStopAndATicketThatCouldNotBeDoneEndWithTheirMembership) {
  open(0, 30, 3);
  EXPECT_EQ(ticket_of(take(0, true)), -1);  // before any step was begun
  go_on(0, 30, 3);
  EXPECT_EQ(ticket_of(take(0)), 0);
  end(0, 0, false);
  EXPECT_EQ(ticket_of(take(0)), -1);
  book.open(event(), {"weights", kNextEpoch + 1, 0, 30, 3, 0, true}, answers, now);
  EXPECT_EQ(ticket_of(take_again(0, 1)), 0);
}

TEST_F(TicketBookTest, TheBoundCountsFromATicketThatIsDealtAgain) {
  open(0, 20, 2, 1);
  for (std::int64_t ticket = 0; ticket < 4; ++ticket) take(ticket == 0 ? 0 : 1);
  for (std::int64_t ticket = 1; ticket < 4; ++ticket) end(1, ticket);
  go_on(0, 20, 2, 1);
  EXPECT_EQ(ticket_of(take(0)), 0);
  const std::uint64_t waiting = take(1);
  EXPECT_FALSE(answer_to(waiting));
  end(0, 0);
  EXPECT_EQ(ticket_of(waiting), 4);
}

TEST_F(TicketBookTest, WhoWasPutOutOpensNothing) {
  open(0, 4, 2);
  go_on(0, 4, 2);
  EXPECT_EQ(message_of([&] {
              book.open(event(), {"weights", kEpoch, 0, 4, 2, 0}, answers, now);
            }),
            "a request of generation 0, the table's is 1");
}

// Workers are lost at any time and others go on; each ticket is ended once, in whatever order.
TEST_F(TicketBookTest, EachTicketIsEndedOnceWhoeverIsLost) {
  std::mt19937_64 random(testing::seed_of_this_run());
  open(0, 60, 3, 2);
  std::map<std::int64_t, std::uint32_t> has;
  std::map<std::int64_t, int> ended;
  std::uint64_t epoch = kNextEpoch;
  for (int turn = 0; turn < 10'000 && std::ssize(ended) < 60; ++turn) {
    const auto worker = static_cast<std::uint32_t>(random() % 4);
    if (random() % 16 == 0) {
      book.open(event(), {"weights", ++epoch, 0, 60, 3, 2, true}, answers, now);
      sequences.clear();
      has.clear();
    } else if (random() % 2 == 0) {
      const std::int64_t ticket = ticket_of(take(worker));
      if (ticket >= 0) has[ticket] = worker;
    } else if (!has.empty()) {
      const auto [ticket, holder] = *std::next(has.begin(), random() % std::size(has));
      end(holder, ticket);
      ++ended[ticket];
      has.erase(ticket);
    }
    answers.replies.clear();
  }
  EXPECT_EQ(std::ssize(ended), 60);
  for (const auto& [ticket, times] : ended) EXPECT_EQ(times, 1) << ticket;
  EXPECT_EQ(done().tickets, 60);
}

// A backup that is filled deals on as the primary would, and whoever asks again has what it had.
TEST_F(TicketBookTest, IsTheSameInAnImage) {
  open(0, 8, 2, 0);
  take(0);
  take(1);
  take(0);
  TicketBook backup(book.save(), now);
  std::vector<comm::MessageEvent> waiting;
  book.add_waiting(waiting);
  ASSERT_EQ(waiting.size(), 1U);
  backup.take(waiting[0], wire::decode<wire::TakeTicket>(waiting[0].payload.text(0)), answers, now);
  book = std::move(backup);
  EXPECT_EQ(ticket_of(take_again(1, 1)), 1);
  end(0, 0);
  EXPECT_EQ(ticket_of(take_again(0, 2)), -2);
  end(1, 1);
  EXPECT_EQ(ticket_of(take_again(0, 2)), 2);
  EXPECT_EQ(ticket_of(take(1)), 3);
  EXPECT_EQ(message_of([&] { end(1, 2); }), "worker 1 ends ticket 2, which worker 0 has");
}

TEST_F(TicketBookTest, AnImageKnowsWhatIsDoneAndWhatIsDealtAgain) {
  open(6, 12, 3);
  take(0);
  take(1);
  end(1, 7);
  go_on(6, 12, 3);
  book = TicketBook(book.save(), now);
  EXPECT_EQ(ticket_of(take(1)), 6);
  EXPECT_EQ(ticket_of(take(1)), 8);
  EXPECT_EQ(done().tickets, 1);
  EXPECT_EQ(done().loss, 2.0);
}

TEST_F(TicketBookTest, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(message_of([&] { open(5, 4, 1); }), "tickets 5 to 4, 1 of them a step");
  open(0, 4, 2);
  take(0);
  EXPECT_EQ(message_of([&] { end(1, 0); }), "worker 1 ends ticket 0, which worker 0 has");
  EXPECT_EQ(message_of([&] { open(4, 8, 2); }),
            "1 tickets are under way: worker 0 has ticket 0, of step 0");
}

}  // namespace
}  // namespace lockstep::kvstore
