// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/generation_keeper.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::cluster::detail {

void GenerationKeeper::begin_with(const Membership& membership) {
  check(!has_begun(), "a second first generation");
  membership_ = membership;
  for (const Member& member : membership.members)
    if (member.role == Role::worker)
      all_.push_back({.member = member, .is_in = true});
    else
      servers_.push_back(member);
}

// Nobody is put out because others waited for it in vain: they waited for the coordinator.
void GenerationKeeper::resume(const KeeperState& state, KeeperTime now) {
  begin_with(state.membership);
  limits_.min_workers = state.min_workers;
  limits_.max_workers = state.max_workers;
  for (const std::int64_t id : state.leaving)
    if (One* one = find(id))
      one->leaves = true;
    else
      leave_when_ready_.insert(id);
  check(!state.is_over, "a job goes on that is over");
  is_resumed_ = true;
  want_change(true, "another member coordinates the job now", now);
  change_->has_loss = true;
}

KeeperState GenerationKeeper::state() const {
  KeeperState state{.membership = membership_,
                    .min_workers = limits_.min_workers,
                    .max_workers = limits_.max_workers,
                    .is_over = over_,
                    .teller = teller_.value_or(-1)};
  for (const One& one : all_)
    if (one.leaves) state.leaving.push_back(one.member.id);
  state.leaving.insert(state.leaving.end(), leave_when_ready_.begin(), leave_when_ready_.end());
  return state;
}

const GenerationKeeper::One* GenerationKeeper::find(std::int64_t id) const {
  const auto found =
      std::find_if(all_.begin(), all_.end(), [&](const One& one) { return one.member.id == id; });
  return found == all_.end() ? nullptr : &*found;
}

GenerationKeeper::One* GenerationKeeper::find(std::int64_t id) {
  return const_cast<One*>(std::as_const(*this).find(id));
}

void GenerationKeeper::remove(std::int64_t id) {
  if (limits_.fences)
    std::erase_if(all_, [&](const One& one) { return one.member.id == id; });
  else if (One* one = find(id))
    one->is_ignored = true;
}

bool GenerationKeeper::is_current(std::int64_t id, std::int64_t generation) const {
  const One* one = find(id);
  if (!limits_.fences) return one != nullptr;
  return one != nullptr && one->is_in && !one->report && generation == membership_.generation;
}

bool GenerationKeeper::is_candidate(std::int64_t id) const {
  const One* one = find(id);
  return one != nullptr && !one->is_in;
}

void GenerationKeeper::add(std::int64_t id, const std::string& host) {
  check(find(id) == nullptr, "two members of one id");
  all_.push_back({.member = {.id = id, .host = host, .role = Role::worker},
                  .leaves = leave_when_ready_.erase(id) > 0});
}

void GenerationKeeper::report(std::int64_t id, const WorkerReport& report, KeeperTime now) {
  One* one = find(id);
  std::int64_t expected = one != nullptr && one->is_in ? membership_.generation : 0;
  if (is_resumed_) expected = std::min(expected, report.generation);  // it may not know of it
  if (over_ || one == nullptr || (limits_.fences && report.generation != expected)) {
    if (one != nullptr && !over_) return lose(id, "it has come out of another generation", now);
    actions_.emplace_back(Dismiss{.id = id, .why = "it is not in this job any more"});
    return;
  }
  one->report = report;
  one->is_ignored = false;
  if (!one->is_in && one->leaves && can_leave(*one)) return let_go(id);
  if (teller_) return;
  if (one->is_in && !report.is_finished)
    want_change(true, report.why.empty() ? "a worker has come out of its step" : report.why, now);
  if (!one->is_in && static_cast<int>(next_workers().size()) > membership_.count(Role::worker))
    want_change(false, "a new worker is ready", now);
  settle(now);
}

void GenerationKeeper::lose(std::int64_t id, const std::string& why, KeeperTime now) {
  const One* one = find(id);
  if (over_ || one == nullptr || one->is_ignored) return;
  const bool was_in = one->is_in;
  note(
      {.kind = KeeperNote::Kind::lost, .id = id, .why = why, .generation = membership_.generation});
  actions_.emplace_back(Dismiss{.id = id, .why = why});
  remove(id);
  const bool was_teller = teller_ == id;
  if (teller_ && !was_teller) return;
  if (was_in) {
    want_change(true, why, now);
    change_->has_loss = true;
    change_->tells_again = was_teller;
  }
  teller_.reset();
  settle(now);
}

void GenerationKeeper::end(std::int64_t id, KeeperTime now) {
  teller_ == id ? tell(id, now) : lose(id, "it has ended", now);
}

// Whoever tells it to a coordinator that does not know was dismissed by the one before.
void GenerationKeeper::tell(std::int64_t id, KeeperTime now) {
  if (!over_ && teller_ == id) return conclude();
  One* one = find(id);
  if (!is_resumed_ || over_ || one == nullptr || !one->is_in) return;
  is_told_ = true;
  one->report = WorkerReport{.generation = membership_.generation, .is_finished = true};
  settle(now);
}

bool GenerationKeeper::release(std::int64_t id, const std::string& why, KeeperTime now) {
  One* one = find(id);
  if (over_ || teller_ || one == nullptr || one->leaves) return false;
  one->leaves = true;
  if (!one->is_in && one->report && can_leave(*one)) {
    let_go(id);
    return true;
  }
  if (one->is_in) want_change(false, why, now);
  settle(now);
  return true;
}

void GenerationKeeper::resize(int workers, KeeperTime now) {
  if (teller_) return;
  limits_.max_workers = std::max(workers, 1);
  limits_.min_workers = std::min(limits_.min_workers, limits_.max_workers);
  note({.kind = KeeperNote::Kind::resized,
        .generation = membership_.generation,
        .workers = limits_.max_workers});
  keep_surplus();
  std::vector<std::int64_t> staying;
  for (const Member& member : membership_.members)
    if (const One* one = find(member.id); one != nullptr && !one->leaves && !one->is_ignored)
      staying.push_back(member.id);
  while (static_cast<int>(staying.size()) > limits_.max_workers) {
    if (One* one = find(staying.back())) one->is_surplus = true;
    release(staying.back(), "the job has fewer workers from now on", now);
    staying.pop_back();
  }
  if (static_cast<int>(next_workers().size()) > membership_.count(Role::worker))
    want_change(false, "the job has more workers from now on", now);
  settle(now);
}

void GenerationKeeper::wait_for_nobody(KeeperTime now) {
  limits_.min_workers = 1;
  settle(now);
}

// Those that leave since the job was made smaller, and have not left yet.
void GenerationKeeper::keep_surplus() {
  for (One& one : all_)
    if (std::exchange(one.is_surplus, false)) one.leaves = false;
}

void GenerationKeeper::want_change(bool is_urgent, const std::string& why, KeeperTime now) {
  if (!change_) change_ = Change{.since = now, .is_urgent = is_urgent, .why = why};
  if (is_urgent && !change_->is_urgent) {
    change_->is_urgent = true;
    change_->since = now;
  }
  interrupt_all();
}

void GenerationKeeper::interrupt_all() {
  for (One& one : all_) {
    const bool is_told = one.is_interrupted && (one.is_urgent || !change_->is_urgent);
    if (!one.is_in || one.report || one.is_ignored || is_told) continue;
    one.is_interrupted = true;
    one.is_urgent = change_->is_urgent;
    actions_.emplace_back(Interrupt{one.member.id, change_->is_urgent, change_->why});
  }
}

void GenerationKeeper::tick(KeeperTime now) {
  if (over_ || !change_ || now - change_->since < limits_.patience) return;
  if (!change_->is_urgent) return want_change(true, change_->why, now);
  expel_late(now);
}

void GenerationKeeper::expel_late(KeeperTime now) {
  std::vector<std::int64_t> late;
  for (const One& one : all_)
    if (one.is_in && !one.report && !one.is_ignored) late.push_back(one.member.id);
  for (const std::int64_t id : late)
    lose(id,
         fmt::format("it did not come out of its step within {:.1f} s",
                     std::chrono::duration<double>(limits_.patience).count()),
         now);
}

// A step that timed out though all members live: they do not hear each other. The one that most
// miss goes, of several the newest, so that the next generation is another one.
bool GenerationKeeper::expel_missed(KeeperTime now) {
  if (change_->has_loss) return false;
  const One* worst = nullptr;
  std::ptrdiff_t most = 0;
  for (const One& one : all_) {
    const auto misses = [&](const One& other) {
      return other.report && other.report->missed == one.member.id;
    };
    const std::ptrdiff_t count = one.is_in ? std::count_if(all_.begin(), all_.end(), misses) : 0;
    if (count == 0 || count < most) continue;
    most = count;
    worst = &one;
  }
  if (worst == nullptr || membership_.count(Role::worker) < 2) return false;
  lose(worst->member.id, "the others waited for it in vain", now);
  return true;
}

bool GenerationKeeper::all_have_reported() const {
  return std::all_of(all_.begin(), all_.end(), [](const One& one) {
    return !one.is_in || one.is_ignored || one.report.has_value();
  });
}

bool GenerationKeeper::all_have_finished() const {
  bool any = false;
  for (const One& one : all_) {
    if (!one.is_in || one.is_ignored) continue;
    if (!one.report || !one.report->is_finished) return false;
    any = true;
  }
  return any;
}

// When all that live have reported, the next generation can be made of them.
void GenerationKeeper::settle(KeeperTime now) {
  if (over_ || teller_ || !has_begun() || !all_have_reported()) return;
  const bool tells_again = change_ && change_->tells_again;
  if (all_have_finished() && !tells_again) return finish();
  if (!change_ || expel_missed(now)) return;
  dismiss_leavers();
  const std::vector<const One*> workers = next_workers();
  const bool has_state = std::any_of(workers.begin(), workers.end(), [](const One* one) {
    return one->report && one->report->has_state;
  });
  if (!has_state) {
    over_ = true;
    actions_.emplace_back(FailJob{"no worker is left that has the state of the run"});
    return;
  }
  if (static_cast<int>(workers.size()) < limits_.min_workers && !tells_again)
    return wait_for_more(static_cast<int>(workers.size()));
  begin_next(workers, now);
}

void GenerationKeeper::finish() {
  change_.reset();
  const auto lives = [this](const Member& member) {
    const One* one = find(member.id);
    return one != nullptr && one->is_in && !one->is_ignored;
  };
  const auto& members = membership_.members;
  teller_ = std::find_if(members.begin(), members.end(), lives)->id;
  is_resumed_ = false;
  if (is_told_) return conclude();
  actions_.emplace_back(Dismiss{*teller_, Dismiss::Kind::finished, "the run is done"});
}

void GenerationKeeper::conclude() {
  over_ = true;
  for (const One& one : all_)
    if (one.member.id != teller_ || is_told_)
      actions_.emplace_back(Dismiss{one.member.id, Dismiss::Kind::finished, "the run is done"});
}

// Somebody stays who has the state: whoever does not wish to leave, or else the first.
bool GenerationKeeper::can_leave(const One& leaver) const {
  const auto has_state = [](const One& one) { return one.report && one.report->has_state; };
  if (!has_state(leaver)) return true;
  if (std::any_of(all_.begin(), all_.end(),
                  [&](const One& one) { return has_state(one) && !one.leaves; }))
    return true;
  return &leaver != &*std::find_if(all_.begin(), all_.end(), has_state);
}

// One that still gets ready hears it when it reports.
void GenerationKeeper::dismiss_leavers() {
  std::vector<std::int64_t> leavers;
  for (const One& one : all_)
    if (one.leaves && one.report && can_leave(one)) leavers.push_back(one.member.id);
  for (const std::int64_t id : leavers) let_go(id);
}

void GenerationKeeper::let_go(std::int64_t id) {
  note({.kind = KeeperNote::Kind::left, .id = id, .generation = membership_.generation});
  actions_.emplace_back(Dismiss{id, Dismiss::Kind::left, "it leaves as it was asked to"});
  std::erase_if(all_, [&](const One& one) { return one.member.id == id; });
}

// Those of the last generation first; then who came first.
std::vector<const GenerationKeeper::One*> GenerationKeeper::next_workers() const {
  std::vector<const One*> workers;
  for (const bool was_in : {true, false})
    for (const One& one : all_) {
      const bool is_full = static_cast<int>(workers.size()) >= limits_.max_workers;
      const bool is_ready = one.is_in || one.report.has_value();
      if (one.is_in == was_in && is_ready && !one.is_ignored && !(one.leaves && can_leave(one)) &&
          !is_full && (was_in || !(change_ && change_->tells_again)))
        workers.push_back(&one);
    }
  return workers;
}

void GenerationKeeper::wait_for_more(int workers) {
  if (std::exchange(waits_with_, workers) == workers) return;
  note({.kind = KeeperNote::Kind::waiting,
        .why = fmt::format("{} of {} workers are there", workers, limits_.min_workers),
        .generation = membership_.generation,
        .workers = workers});
}

// Workers of one host are neighbours, hosts in the order of who was there first: the first worker
// stays the first for as long as it lives.
void GenerationKeeper::begin_next(const std::vector<const One*>& workers, KeeperTime now) {
  Membership next{.generation = membership_.generation + 1};
  for (const One* first : workers) {
    const auto is_known = [&](const Member& one) { return one.host == first->member.host; };
    if (std::any_of(next.members.begin(), next.members.end(), is_known)) continue;
    for (const One* one : workers)
      if (one->member.host == first->member.host) next.members.push_back(one->member);
  }
  next.members.insert(next.members.end(), servers_.begin(), servers_.end());
  std::int64_t step = -1;
  for (One& one : all_) {
    const auto is_it = [&](const Member& member) { return member.id == one.member.id; };
    const bool is_in = std::any_of(next.members.begin(), next.members.end(), is_it);
    if (is_in && !one.is_in)
      note({.kind = KeeperNote::Kind::joined, .id = one.member.id, .generation = next.generation});
    if (one.report) step = std::max(step, one.report->step);
    one.is_in = is_in;
    one.is_interrupted = one.is_urgent = false;
    if (is_in) one.report.reset();
  }
  membership_ = next;
  is_resumed_ = is_told_ = false;
  note({.kind = KeeperNote::Kind::generation,
        .why = change_->why,
        .generation = next.generation,
        .step = step,
        .workers = next.count(Role::worker),
        .took = now - change_->since});
  change_.reset();
  waits_with_ = -1;
  actions_.emplace_back(Begin{membership_});
  const auto leaves = [](const One& one) { return one.is_in && one.leaves; };
  if (next.count(Role::worker) > 1 && std::any_of(all_.begin(), all_.end(), leaves))
    want_change(false, "a worker leaves", now);
}

std::vector<KeeperAction> GenerationKeeper::take_actions() { return std::exchange(actions_, {}); }

}  // namespace lockstep::cluster::detail
