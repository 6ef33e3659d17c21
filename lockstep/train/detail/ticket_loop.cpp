// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/ticket_loop.h"

#include <algorithm>
#include <deque>

#include "lockstep/comm/errors.h"
#include "lockstep/kvstore/servers/wire.h"

namespace lockstep::train::detail {
namespace {

namespace wire = kvstore::wire;

// Tickets that a worker has besides the one it computes, so that their batches are made meanwhile.
// Where others may have to wait for them it has fewer.
constexpr std::size_t kAhead = 2, kAheadIfBounded = 1;

std::int64_t least_divisor(std::int64_t number, std::int64_t from) {
  while (number % from != 0) ++from;
  return from;
}

}  // namespace

TicketPlan TicketPlan::of(std::int64_t shards_of_step, int workers) {
  const std::int64_t per_step = least_divisor(shards_of_step, workers);
  return {per_step, shards_of_step / per_step};
}

// What a worker tells the others where they meet.
struct TicketLoop::Own {
  std::int64_t end = 0, tickets = 0;
  std::string reason = {};  // to stop; empty: there is none
  std::int64_t bad_ticket = -1;
  double bad_loss = 0.0;
  std::uint64_t pushes = 0, most_stale = 0, total_stale = 0, most_ahead = 0;
  std::vector<float> statistics = {};
  void visit(auto&& fields) {
    fields(end, tickets, reason, bad_ticket, bad_loss, pushes, most_stale, total_stale, most_ahead,
           statistics);
  }
  std::vector<data::Fields> bad_batches = {};  // stay here
};

TicketLoop::TicketLoop(kvstore::Mode& mode, StepEngine& engine, data::Loader& loader,
                       const TicketPlan& plan)
    : group_(&mode.group()),
      office_(mode.out_of_step()),
      engine_(engine),
      loader_(&loader),
      plan_(plan) {}

void TicketLoop::enter(kvstore::Mode& mode, data::Loader& loader, const TicketPlan& plan) {
  earlier_ = seen();
  group_ = &mode.group();
  office_ = mode.out_of_step();
  loader_ = &loader;
  plan_ = plan;
}

kvstore::PushesSeen TicketLoop::seen() const {
  kvstore::PushesSeen all = earlier_;
  all.add(office_->seen());
  return all;
}

void TicketLoop::come_together(bool is_new) {
  if (is_new) tickets_ = 0;
  Own own;
  own.tickets = tickets_;
  own.statistics = engine_.statistics();
  take_statistics(all_of(own));
  engine_.pull();
}

std::vector<TicketLoop::Own> TicketLoop::all_of(const Own& own) {
  std::vector<Own> all;
  for (const std::string& text : group_->share(wire::encode(own)))
    all.push_back(wire::decode<Own>(text));
  return all;
}

Stretch TicketLoop::run(std::int64_t first, std::int64_t end, const TicketHooks& hooks) {
  office_->open(first, end, plan_.per_step);
  Own own;
  own.end = end;
  work(first, own, hooks);
  office_->settle();
  Stretch stretch = meet(own, hooks);
  check(stretch.bad || stretch.tickets == stretch.end - first, "a ticket was done twice or never");
  stretch.pause = !stretch.bad && !stretch.stop && stretch.end < end;
  return stretch;
}

// Towards the end nobody has tickets that others could compute meanwhile: whoever is slow would be
// waited for.
std::size_t TicketLoop::ahead(std::int64_t newest, std::int64_t end) const {
  const std::size_t most = office_->is_bounded() ? kAheadIfBounded : kAhead;
  const auto of_all = plan_.per_step * static_cast<std::int64_t>(1 + most);
  return newest + of_all < end ? most : 0;
}

// Asks ahead, and computes what it is dealt in that order.
void TicketLoop::work(std::int64_t newest, Own& own, const TicketHooks& hooks) {
  std::deque<kvstore::OutOfStep::Dealt> dealt;
  std::size_t asked = 0;
  bool is_over = false;
  while (true) {
    for (; !is_over && dealt.size() + asked < 1 + ahead(newest, own.end); ++asked)
      office_->ask(!hooks.wish().empty() || hooks.pause());
    for (; asked > 0 && (dealt.empty() || office_->is_ready()); --asked) {
      const kvstore::OutOfStep::Dealt next = office_->next();
      own.end = next.end;
      is_over = is_over || !next.ticket;
      if (!next.ticket) continue;
      dealt.push_back(next);
      newest = *next.ticket;
      loader_->expect(plan_.step_of(*next.ticket), plan_.first_shard_of(*next.ticket));
    }
    if (dealt.empty() && is_over) return;
    if (dealt.empty()) continue;
    const kvstore::OutOfStep::Dealt first = dealt.front();
    dealt.pop_front();
    if (!compute(first, own, hooks)) return loader_->forget();
  }
}

// Whatever goes wrong here, nobody waits for the ticket. Where it is the others, they know.
bool TicketLoop::compute(const kvstore::OutOfStep::Dealt& dealt, Own& own,
                         const TicketHooks& hooks) {
  const std::int64_t ticket = *dealt.ticket;
  try {
    std::vector<data::Fields> batches = loader_->take();
    const double rate = hooks.rate(plan_.step_of(ticket)) / static_cast<double>(plan_.per_step);
    const StepResult result = hooks.run(ticket, rate, batches);
    if (!result.finite) {
      own.bad_ticket = ticket;
      own.bad_loss = result.loss;
      own.bad_batches = std::move(batches);
      office_->give_up(ticket);
      return false;
    }
    office_->end(ticket, result.loss, result.accuracy);
    ++tickets_;
    hooks.on_end({ticket, result.loss, result.accuracy, dealt.ahead});
    return true;
  } catch (const comm::CommError&) {
    loader_->forget();
    throw;
  } catch (...) {
    try {
      office_->give_up(ticket);
    } catch (const std::exception&) {
      // The first error is the one to tell.
    }
    loader_->forget();
    throw;
  }
}

// Who is here has ended its tickets.
Stretch TicketLoop::meet(Own& own, const TicketHooks& hooks) {
  own.tickets = tickets_;
  own.reason = hooks.wish();
  own.statistics = engine_.statistics();
  const kvstore::PushesSeen seen = this->seen();
  own.pushes = seen.pushes;
  own.most_stale = seen.most_stale;
  own.total_stale = seen.total_stale;
  own.most_ahead = seen.most_ahead;
  const std::vector<Own> all = all_of(own);
  const kvstore::TicketSums sums = office_->sums();
  Stretch stretch{
      .end = own.end, .loss = sums.loss, .accuracy = sums.accuracy, .tickets = sums.tickets};
  for (const Own& one : all) {
    stretch.end = std::min(stretch.end, one.end);
    stretch.seen.add({one.pushes, one.most_stale, one.total_stale, one.most_ahead});
    if (!one.reason.empty() && !stretch.stop) stretch.stop = one.reason;
    if (one.bad_ticket >= 0 && (!stretch.bad || one.bad_ticket < stretch.bad->ticket))
      stretch.bad = {one.bad_ticket, one.bad_loss, {}};
  }
  stretch.seen.applied = office_->seen().applied;
  if (stretch.bad && stretch.bad->ticket == own.bad_ticket) stretch.bad->batches = own.bad_batches;
  engine_.pull();
  if (!stretch.bad) office_->check_applied();
  take_statistics(all);
  return stretch;
}

void TicketLoop::take_statistics(const std::vector<Own>& all) {
  std::vector<double> sums(all[0].statistics.size());
  double tickets = 0.0;
  for (const Own& one : all) {
    if (one.tickets == 0) continue;
    check(one.statistics.size() == sums.size(), "workers with other statistics");
    const auto weight = static_cast<double>(one.tickets);
    tickets += weight;
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += weight * static_cast<double>(one.statistics[i]);
  }
  tickets_ = 0;
  if (sums.empty() || tickets == 0.0) return;
  std::vector<float> mean(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) mean[i] = static_cast<float>(sums[i] / tickets);
  engine_.set_statistics(mean);
}

}  // namespace lockstep::train::detail
