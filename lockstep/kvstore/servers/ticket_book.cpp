// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/ticket_book.h"

#include <algorithm>
#include <tuple>

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

std::vector<wire::RemindTicket> TicketBook::reminders(Time now) const {
  std::vector<wire::RemindTicket> due;
  for (const Waiting& one : waiting_) {
    const auto patience = patience_of(one.request);
    const bool is_own = under_way_.begin()->second == one.request.worker;
    const bool is_stuck = !is_own && now - progress_ > patience;
    if (!is_stuck && now - one.since <= patience / 2) continue;
    due.push_back({range_.table, epoch_, one.request.worker, one.request.sequence, is_stuck});
  }
  return due;
}

void TicketBook::remind(const comm::MessageEvent& event, const wire::RemindTicket& request,
                        Answers& answers) {
  const auto one = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
    return waiting.request.worker == request.worker && waiting.request.sequence == request.sequence;
  });
  answers.reply(event, {}, 0);
  if (one == waiting_.end()) return;
  wire::GivenTicket told{.kind = wire::GivenTicket::again, .end = range_.end, .stop = stop_};
  if (request.is_stuck && !under_way_.empty()) {
    told.kind = wire::GivenTicket::stuck;
    std::tie(told.number, told.worker) = *under_way_.begin();
  }
  give(*one, told, answers);
  waiting_.erase(one);
}

wire::BookImage TicketBook::save() const {
  wire::BookImage image{.epoch = epoch_,
                        .range = range_,
                        .next = next_,
                        .again = {again_.begin(), again_.end()},
                        .stop = stop_,
                        .is_given_up = is_given_up_,
                        .done = done_};
  for (const auto& [ticket, worker] : under_way_) image.under_way.push_back({ticket, worker});
  for (const auto& [worker, all] : given_)
    for (const auto& [sequence, given] : all) image.given.push_back({worker, sequence, given});
  if (broken_) image.broken.push_back(*broken_);
  return image;
}

TicketBook::TicketBook(const wire::BookImage& image, Time now) : TicketBook(image.epoch, now) {
  if (image.range.per_step < 1) throw Corrupt("tickets: the image of none");
  range_ = image.range;
  next_ = image.next;
  again_.insert(image.again.begin(), image.again.end());
  stop_ = image.stop;
  is_given_up_ = image.is_given_up;
  done_ = image.done;
  for (const wire::HeldTicket& one : image.under_way) under_way_[one.ticket] = one.worker;
  for (const wire::AnsweredTicket& one : image.given) given_[one.worker][one.sequence] = one.given;
  if (!image.broken.empty()) broken_ = image.broken[0];
}

void TicketBook::add_waiting(std::vector<comm::MessageEvent>& events) const {
  for (const Waiting& one : waiting_) {
    comm::MessageEvent& event = events.emplace_back();
    event.topic = static_cast<std::uint32_t>(wire::Topic::take_ticket);
    event.payload.add(wire::encode(one.request));
  }
}

}  // namespace lockstep::kvstore
