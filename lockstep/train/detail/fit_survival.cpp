// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "lockstep/comm/errors.h"
#include "lockstep/train/detail/evaluations.h"
#include "lockstep/train/detail/fit.h"
#include "lockstep/train/detail/run_state.h"

// A run whose workers may change. What fails between workers ends the generation, never the run: a
// step that was under way counts for nothing, the workers of the next generation come to one state,
// and go on from there. Everything that is done at a step is done once, whoever does it.
namespace lockstep::train::detail {
namespace {

using nlohmann::json;

constexpr auto kLookForStop = std::chrono::milliseconds(100);

// Only who is late is missed: of one that is gone the coordinator knows.
int missed_by(const comm::CommError& error) {
  return dynamic_cast<const comm::Timeout*>(&error) != nullptr ? error.rank() : -1;
}

// While this worker waits for the next generation. What fails is said again, or next() fails too.
void say_when_to_stop(Survival& survival, const std::atomic<bool>& stop,
                      const std::stop_token& end) {
  std::mutex own;
  std::unique_lock lock(own);
  std::condition_variable_any never;
  while (!never.wait_for(lock, end, kLookForStop, [] { return false; }) && !end.stop_requested()) {
    if (!stop) continue;
    try {
      return survival.wait_for_nobody();
    } catch (const std::exception&) {
      continue;
    }
  }
}

}  // namespace

bool Fit::is_late() const {
  return parts_.options.survival != nullptr && parts_.options.survival->is_late();
}

std::vector<cluster::MembershipEvent> Fit::membership_events() const {
  if (parts_.options.survival == nullptr) return {};
  return parts_.options.survival->events();
}

void Fit::until_done() {
  Survival* survival = parts_.options.survival;
  if (survival == nullptr) return train_to_end();
  survival->begin();
  met_step_ = told_step_ = step_;
  for (cluster::Standing standing;;) {
    try {
      train_to_end();
      const bool paused =
          std::exchange(pause_requested_, false) && step_ < total_steps_ && !stop_requested_;
      standing = {.is_finished = !paused, .why = paused ? "the workers change" : ""};
    } catch (const comm::CommError& error) {
      standing = {.missed = missed_by(error), .why = error.what(), .is_broken = true};
      if (loop_) step_ = met_step_;  // tickets since then are the servers' to know
    }
    if (!regroup(standing)) return;
  }
}

// False: this worker is not needed any more.
bool Fit::regroup(cluster::Standing standing) {
  Survival& survival = *parts_.options.survival;
  if (!recovery_) failed_at_ = now();
  recovery_ = Recovery{.step = step_, .why = standing.why};
  for (;;) {
    standing.step = has_state_ ? step_ : -1;
    try {
      kvstore::Mode* mode = next_mode(standing);
      if (mode == nullptr) {
        result_.is_dismissed = !survival.is_run_done() || !has_state_;
        if (result_.is_dismissed) result_.is_first = false;
        result_.generation = survival.generation();
        result_.events = survival.events();
        return false;
      }
      enter(*mode);
      align_states();
      break;
    } catch (const comm::CommError& error) {
      standing.is_finished = false;
      standing.is_broken = true;
      standing.missed = missed_by(error);
      standing.why = error.what();
    }
  }
  survival.settle();
  has_recovered_ = true;
  recovery_->generation = survival.generation();
  recovery_->workers = group().workers();
  for (const CallbackPtr& callback : options_.callbacks) callback->on_generation(*this);
  return true;
}

// Where the job is to stop those who are there stop it, though they are fewer than it waits for.
kvstore::Mode* Fit::next_mode(const cluster::Standing& standing) {
  Survival& survival = *parts_.options.survival;
  std::jthread watcher;
  if (const std::atomic<bool>* stop = options_.stop)
    watcher = std::jthread(
        [&survival, stop](const std::stop_token& end) { say_when_to_stop(survival, *stop, end); });
  return survival.next(standing);
}

// What was made ahead is of other shards.
void Fit::enter(kvstore::Mode& mode) {
  parts_.options.mode = &mode;
  pause_requested_ = has_asked_to_leave_ = false;
  if (kvstore::OutOfStep* office = mode.out_of_step()) {
    office->go_on();
    agree_on_tickets();
    engine_->replan(office->alone(), tickets_.shards);
    seen_before_ = {};
    ticket_.reset();
  } else {
    engine_->replan(mode);
  }
  first_batches_.reset();
  loader_.emplace(dataset_, make_sampler(), loader_options());
  if (loop_) loop_->enter(mode, *loader_, tickets_);
  watch_speeds();
}

// It leaves when the generation has ended, which takes a step.
void Fit::leave_if_asked() {
  if (!is_asked_to_leave() || group().workers() == 1 || has_asked_to_leave_) return;
  parts_.options.survival->leave();
  has_asked_to_leave_ = true;
}

void Fit::align_states() {
  const std::int64_t before = step_;
  const cluster::Alignment alignment = parts_.options.survival->align(
      {.step = has_state_ ? step_ : -1, .evaluated = evaluated_step_});
  const int rank = group().rank();
  if (alignment.is_needed()) {
    const std::string text =
        group().from(alignment.source, rank == alignment.source ? state_text() : "");
    if (alignment.receives[static_cast<std::size_t>(rank)]) take_state_text(text);
  }
  if (loop_)
    loop_->come_together(alignment.is_needed() &&
                         alignment.receives[static_cast<std::size_t>(rank)]);
  engine_->align(step_);
  result_.steps_lost += std::max<std::int64_t>(0, before - step_);
  if (alignment.has_newcomers) take_bits_of_newcomers(alignment.source);
  agree_on_writing();
  if (loop_) leave_out_missed_checkpoint();
}

// A worker that computes other bits is not let in; the others go on without it.
void Fit::take_bits_of_newcomers(int source) {
  const Probe own = engine_->probe();
  const std::vector<std::string> all =
      group().share(own.parameters + " " + own.layouts + " " + own.results + " " + deal_text());
  const std::string& expected = all[static_cast<std::size_t>(source)];
  const std::string& mine = all[static_cast<std::size_t>(group().rank())];
  const bool same = std::all_of(all.begin(), all.end(), [&](auto& one) { return one == expected; });
  if (mine != expected && !parts_.options.allow_different_bits)
    throw comm::Refused(
        fmt::format("train: this worker computes other bits from the same input than worker {}: "
                    "{}, not {}",
                    source, mine, expected));
  if (parts_.options.allow_different_bits) state_.same_bits &= same;
  result_.same_bits = state_.same_bits;
}

// Another worker may be the first now: it writes from here on, and looks what is there.
void Fit::agree_on_writing() {
  if (writes_ && is_first() && !store_) {
    open_store();
    written_step_ = -1;
    try {
      if (store_ && store_->load_newest() && newest_checkpoint() != "" &&
          store_->list().back().step == step_)
        written_step_ = step_;
    } catch (const Error& error) {
      warn(error.what());
    }
  }
  written_step_ = std::stoll(group().from_first(std::to_string(written_step_)));
}

std::string Fit::state_text() const {
  RunState state;
  static_cast<Snapshot&>(state) = engine_->own_snapshot();
  state.step = step_;
  state.training = state_.to_json();
  state.history = lines_of(state_.history);
  state.run = json{{"first_step", first_step_},
                   {"evaluated_step", evaluated_step_},
                   {"writes", writes_},
                   {"stop_requested", stop_requested_},
                   {"stop_reason", result_.stop_reason},
                   {"loss", last_event_.loss},
                   {"accuracy", last_event_.accuracy},
                   {"learning_rate", last_event_.learning_rate}}
                  .dump();
  return to_bytes(state);
}

void Fit::take_state_text(const std::string& text) {
  const std::string place = "the state of another worker";
  const std::int64_t own_step = has_state_ ? step_ : -1;
  const RunState state = run_state_from(text);
  set_trained_parameters(*parts_.net, parts_.loss, state.parameters, place);
  engine_->take_over(*parts_.net, state.slots);
  net_is_current_ = true;
  remember_parameters();
  state_ = FitState::from_json(state.training, place);
  state_.history = records_from(state.history, place);
  state_.missing_before = 0;
  const json run = json::parse(state.run);
  step_ = state.step;
  first_step_ = run.at("first_step");
  evaluated_step_ = run.at("evaluated_step");
  writes_ = run.at("writes");
  stop_requested_ = run.at("stop_requested");
  result_.stop_reason = run.at("stop_reason");
  has_state_ = true;
  count_reductions();
  if (!state_.history.empty()) result_.validation = evaluation_of(state_.history.back());
  met_step_ = step_;
  told_step_ = std::max(told_step_, step_);
  if (!loop_ && own_step >= 0 &&
      step_ == own_step + 1)  // the others have committed it, and nobody told it
    tell_step({.loss = run.at("loss"),
               .accuracy = run.at("accuracy"),
               .learning_rate = run.at("learning_rate")});
}

void Fit::note_recovery() {
  recovery_->seconds = now() - failed_at_;
  result_.recoveries.push_back(*std::exchange(recovery_, {}));
}

}  // namespace lockstep::train::detail
