// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/ticket_book.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::kvstore {
namespace {

constexpr std::size_t kRemembered = 8;  // a worker asks for fewer at once

std::chrono::milliseconds patience_of(const wire::TakeTicket& request) {
  constexpr std::uint64_t kMost = 24ULL * 3600 * 1000;
  return std::chrono::milliseconds(std::min(request.patience, kMost));
}

}  // namespace

void TicketBook::check_open(const wire::OpenTickets& request) const {
  if (request.per_step < 1 || request.first < 0 || request.end < request.first)
    throw InvalidArgument("tickets {} to {}, {} of them a step", request.first, request.end,
                          request.per_step);
  if (broken_) throw InvalidArgument("{}", *broken_);
  wire::check_generation(request.epoch, epoch_);
}

void TicketBook::open(const comm::MessageEvent& event, const wire::OpenTickets& request,
                      Answers& answers, Time now) {
  check_open(request);
  const bool is_same = request.goes_on && request.first == range_.first &&
                       request.per_step == range_.per_step && request.end >= next_;
  const std::size_t undone = again_.size() + under_way_.size();
  if (!is_same && undone > 0)
    throw InvalidArgument("{} tickets are under way: {}", undone, held_by());
  if (request.epoch != epoch_) begin_epoch(request.epoch, answers);
  range_ = request;
  stop_ = is_given_up_ = false;
  progress_ = now;
  if (!is_same) {
    next_ = request.first;
    done_ = {.of_run = done_.of_run};
  }
  answers.reply(event, {}, 0);
}

void TicketBook::begin_epoch(std::uint64_t epoch, Answers& answers) {
  drop("other workers go on", answers);
  epoch_ = epoch;
  given_.clear();
  for (const auto& [ticket, worker] : under_way_) again_.insert(ticket);
  under_way_.clear();
}

void TicketBook::read(const comm::MessageEvent& event, Answers& answers) const {
  answers.reply(event, comm::Payload(wire::encode(done_)), 0);
}

// The first that is not applied is under way, or one that is dealt next.
std::int64_t TicketBook::oldest() const {
  return under_way_.empty() ? next() : std::min(next(), under_way_.begin()->first);
}

std::uint64_t TicketBook::ahead() const {
  return static_cast<std::uint64_t>(step_of(next()) - step_of(oldest()));
}

std::int64_t TicketBook::take_next() {
  if (again_.empty()) return next_++;
  return again_.extract(again_.begin()).value();
}

// A step that was begun is done: what is applied then is that of whole steps.
void TicketBook::stop_after_step() {
  const std::int64_t begun = (next_ + range_.per_step - 1) / range_.per_step * range_.per_step;
  range_.end = std::min(range_.end, begun);
  stop_ = true;
}

void TicketBook::take(const comm::MessageEvent& event, const wire::TakeTicket& request,
                      Answers& answers, Time now) {
  if (broken_) throw InvalidArgument("{}", *broken_);
  const std::map<std::uint64_t, wire::GivenTicket>& given = given_[request.worker];
  if (const auto place = given.find(request.sequence); place != given.end())
    return answers.reply(event, comm::Payload(wire::encode(place->second)), 0);
  if (!given.empty() && given.begin()->first > request.sequence)
    throw InvalidArgument("worker {} asks for ticket {} of its own, which it has had",
                          request.worker, request.sequence);
  std::erase_if(waiting_, [&](const Waiting& one) {
    return one.request.worker == request.worker && one.request.sequence == request.sequence;
  });
  if (request.stop && !stop_) stop_after_step();
  waiting_.push_back({without_payload(event), request, now});
  deal(answers, now);
}

void TicketBook::end(const comm::MessageEvent& event, const wire::EndTicket& request,
                     Answers& answers, Time now) {
  const auto place = under_way_.find(request.ticket);
  if (place != under_way_.end() && place->second != request.worker)
    throw InvalidArgument("worker {} ends ticket {}, which worker {} has", request.worker,
                          request.ticket, place->second);
  if (place != under_way_.end()) {
    under_way_.erase(place);
    progress_ = now;
    note_end(request);
  }
  answers.reply(event, {}, 0);
  deal(answers, now);
}

void TicketBook::note_end(const wire::EndTicket& request) {
  if (!request.done) {
    again_.insert(request.ticket);
    is_given_up_ = true;
    return;
  }
  ++done_.tickets;
  ++done_.of_run;
  done_.loss += request.loss;
  done_.accuracy += request.accuracy;
}

// In the order of asking. Who waits does so for a ticket that is under way.
void TicketBook::deal(Answers& answers, Time now) {
  while (!waiting_.empty()) {
    wire::GivenTicket given{.end = range_.end, .stop = stop_};
    if (may_deal()) {
      given.kind = wire::GivenTicket::ticket;
      given.ahead = ahead();
      given.number = take_next();
      under_way_[given.number] = waiting_.front().request.worker;
      progress_ = now;
    } else if (!is_over()) {
      return;
    }
    give(waiting_.front(), given, answers);
    waiting_.pop_front();
  }
}

void TicketBook::give(const Waiting& to, const wire::GivenTicket& ticket, Answers& answers) {
  std::map<std::uint64_t, wire::GivenTicket>& given = given_[to.request.worker];
  given[to.request.sequence] = ticket;
  if (given.size() > kRemembered) given.erase(given.begin());
  answers.reply(to.event, comm::Payload(wire::encode(ticket)), 0);
}

std::string TicketBook::held_by() const {
  if (under_way_.empty()) return fmt::format("nobody has ticket {}", next());
  const auto& [ticket, worker] = *under_way_.begin();
  return fmt::format("worker {} has ticket {}, of step {}", worker, ticket, step_of(ticket));
}

void TicketBook::worker_left(std::uint32_t worker, Answers& answers) {
  given_.erase(worker);
  const auto its = std::find_if(under_way_.begin(), under_way_.end(),
                                [&](const auto& one) { return one.second == worker; });
  if (its == under_way_.end()) return;
  broken_ = fmt::format("worker {} has left with ticket {}, of step {}", worker, its->first,
                        step_of(its->first));
  drop(*broken_, answers);
}

void TicketBook::drop(const std::string& why, Answers& answers) {
  for (const Waiting& one : waiting_) answers.fail(one.event, why);
  waiting_.clear();
}

void TicketBook::look_at_clock(Time now, Answers& answers) {
  for (auto one = waiting_.begin(); one != waiting_.end();) {
    const auto patience = patience_of(one->request);
    const bool is_own = under_way_.begin()->second == one->request.worker;
    const bool is_stuck = !is_own && now - progress_ > patience;
    if (is_stuck)
      give(*one,
           {.kind = wire::GivenTicket::stuck,
            .number = under_way_.begin()->first,
            .end = range_.end,
            .worker = under_way_.begin()->second},
           answers);
    else if (now - one->since > patience / 2)
      give(*one, {.kind = wire::GivenTicket::again, .end = range_.end, .stop = stop_}, answers);
    else {
      ++one;
      continue;
    }
    one = waiting_.erase(one);
  }
}

}  // namespace lockstep::kvstore
