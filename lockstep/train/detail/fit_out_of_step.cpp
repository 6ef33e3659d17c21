// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/train/detail/fit.h"

// A run whose workers are not in step. Between two points at which they meet, each computes
// tickets; at such a point all is as in a run in step, and so is what the run does there:
// evaluations, checkpoints, ends of epochs.
namespace lockstep::train::detail {

// Later workers have those of the first.
TicketPlan Fit::first_tickets() const {
  if (out_of_step() == nullptr) return {};
  return TicketPlan::of(parts_.options.shards, group().workers());
}

void Fit::agree_on_tickets() {
  const auto all = group().share(has_state_ ? std::to_string(tickets_.per_step) : "");
  const auto known = std::ranges::find_if(all, [](const std::string& one) { return one != ""; });
  check(known != all.end(), "workers of which none has a state");
  tickets_.per_step = std::stoll(*known);
  tickets_.shards = parts_.options.shards / tickets_.per_step;
}

// Where tickets were applied since all have met, nobody has the weights of that step any more: its
// checkpoint is not written, if it is missing.
void Fit::leave_out_missed_checkpoint() {
  const std::int64_t met = (step_ - first_step_) * tickets_.per_step;
  if (static_cast<std::int64_t>(out_of_step()->most_applied()) > met) written_step_ = step_;
}

bool Fit::wishes_to_pause() {
  Survival* survival = parts_.options.survival;
  if (survival == nullptr) return false;
  leave_if_asked();
  return survival->wants_change();
}

EngineOptions Fit::engine_options() const {
  const TrainerOptions& own = parts_.options;
  return {.shards = out_of_step() != nullptr ? tickets_.shards : own.shards,
          .threads = own.threads,
          .seed = own.seed,
          .compile = own.compile,
          .mode = out_of_step() != nullptr ? &out_of_step()->alone() : own.mode,
          .fields = own.fields,
          .cuts = own.mesh.cuts,
          .slices = own.mesh.slices,
          .splits = own.mesh.splits,
          .schedule = own.schedule,
          .recompute = own.recompute};
}

// Tickets are not dealt yet: everybody looks at the first.
std::vector<data::Fields> Fit::load_first_batches() {
  if (out_of_step() == nullptr) return loader_->step(step_);
  loader_->expect(step_, 0);
  return loader_->take();
}

Fit::Share Fit::share() const {
  return ticket_ ? *ticket_ : Share{step_, step_, engine_->range().lo};
}

// Whatever is done at the end of some step is done where all have met.
std::int64_t Fit::next_meeting() const {
  const auto after = [&](std::int64_t every) { return (step_ / every + 1) * every; };
  std::int64_t next = std::min(total_steps_, after(steps_per_epoch()));
  if (options_.evaluate_every > 0) next = std::min(next, after(options_.evaluate_every));
  if (options_.checkpoint_every > 0) next = std::min(next, after(options_.checkpoint_every));
  return next;
}

std::string Fit::wish_to_stop() const {
  if (stop_requested_) return result_.stop_reason;
  const bool is_last = group().workers() == 1 && is_asked_to_leave();
  return is_asked_to_stop() || is_last ? kInterrupted : "";
}

void Fit::one_stretch() {
  first_batches_.reset();
  met_step_ = step_;
  ticket_end_ = now();
  since_told_ = {.ticket = step_ * tickets_.per_step - 1};
  count_since_told_ = 0;
  const TicketHooks hooks{
      .rate = [this](std::int64_t step) { return learning_rate(step); },
      .wish = [this] { return wish_to_stop(); },
      .pause = [this] { return wishes_to_pause(); },
      .run =
          [this](std::int64_t ticket, double rate, const std::vector<data::Fields>& batches) {
            ticket_ = Share{ticket, tickets_.step_of(ticket), tickets_.first_shard_of(ticket)};
            take_set_parameters();
            leave_net();
            return run_step(rate, batches, {});
          },
      .on_end = [this](const TicketResult& result) { end_ticket(result); }};
  const Stretch stretch =
      loop_->run(step_ * tickets_.per_step, next_meeting() * tickets_.per_step, hooks);
  leave_net();
  result_.pushes = stretch.seen;
  if (stretch.bad) {
    const std::int64_t ticket = stretch.bad->ticket;
    step_ = tickets_.step_of(ticket);
    ticket_ = Share{ticket, step_, tickets_.first_shard_of(ticket)};
    fail_diverged(stretch.bad->loss, stretch.bad->batches);
  }
  ticket_.reset();
  const auto per_step = static_cast<double>(tickets_.per_step);
  state_.loss_sum += stretch.loss / per_step;
  state_.accuracy_sum += stretch.accuracy / per_step;
  state_.consistent_cut = true;
  rate_.add(now() - ticket_end_, (stretch.end - 1 - since_told_.ticket) * samples_of_ticket());
  tell_steps_until(tickets_.step_of(stretch.end), stretch);
  pause_requested_ = stretch.pause;
  if (stretch.stop) request_stop(stretch.stop->empty() ? kInterrupted : *stretch.stop);
  if (step_ % steps_per_epoch() == 0) end_epoch();
}

std::int64_t Fit::samples_of_ticket() const { return global_batch() / tickets_.per_step; }

// A ticket's number tells how much all workers have done.
void Fit::end_ticket(const TicketResult& result) {
  const double end = now();
  rate_.add(end - ticket_end_, (result.ticket - since_told_.ticket) * samples_of_ticket());
  ticket_end_ = end;
  since_told_.ticket = result.ticket;
  since_told_.loss += result.loss;
  since_told_.accuracy += result.accuracy;
  since_told_.ahead = std::max(since_told_.ahead, result.ahead);
  ++count_since_told_;
  if (recovery_) note_recovery();
  const std::int64_t steps = tickets_.step_of(result.ticket) + 1;
  if (steps <= told_step_) return;  // by an earlier ticket of that step
  step_ = told_step_ = steps;
  tell_own_tickets();
}

// Of this worker's tickets since it has told last.
void Fit::tell_own_tickets() {
  const auto count = static_cast<double>(count_since_told_);
  const kvstore::PushesSeen seen = out_of_step()->seen();
  const std::uint64_t pushes = seen.pushes - seen_before_.pushes;
  const std::uint64_t stale = seen.total_stale - seen_before_.total_stale;
  tell_step(
      {.loss = since_told_.loss / count,
       .accuracy = since_told_.accuracy / count,
       .learning_rate = learning_rate(step_ - 1),
       .staleness = pushes == 0 ? 0.0 : static_cast<double>(stale) / static_cast<double>(pushes),
       .steps_ahead = since_told_.ahead});
  seen_before_ = seen;
  count_since_told_ = 0;
  since_told_.loss = since_told_.accuracy = 0.0;
  since_told_.ahead = 0;
}

// The last step may have been others' alone: then it tells of all their tickets since they met.
void Fit::tell_steps_until(std::int64_t step, const Stretch& stretch) {
  const bool is_told = told_step_ >= step;
  step_ = met_step_ = told_step_ = step;
  if (is_told || stretch.tickets == 0) return;
  const auto count = static_cast<double>(stretch.tickets);
  tell_step({.loss = stretch.loss / count,
             .accuracy = stretch.accuracy / count,
             .learning_rate = learning_rate(step_ - 1),
             .staleness = stretch.seen.mean_stale(),
             .steps_ahead = stretch.seen.most_ahead});
}

}  // namespace lockstep::train::detail
