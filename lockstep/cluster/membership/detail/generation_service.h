// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "lockstep/cluster/membership/detail/generation_keeper.h"
#include "lockstep/cluster/membership/detail/roster.h"
#include "lockstep/cluster/membership/stored_job.h"

namespace lockstep::cluster::detail {

// The coordinator's side of a job that survives the loss of workers: tells the keeper what it
// hears, and the workers what the keeper decides.
class GenerationService {
 public:
  struct Calls {
    std::function<void(const comm::MessageEvent& request, const Message& message)> answer;
    // It is out of the job: whatever it has asked and asks is answered by this.
    std::function<void(Participant& one, const Failure& failure)> fence;
    std::function<void(const MembershipEvent& event)> tell;
    std::function<void()> changed;  // before anybody hears of it
    // What was decided is kept, before anybody hears of it. What it throws, nobody hears of it.
    std::function<void()> record;
    std::function<void(const std::string& why)> fail;  // the job cannot go on
    // For a worker that has none; null: the next one that nobody ever had.
    std::function<std::int64_t()> new_id = {};
  };
  // `roster` outlives it.
  GenerationService(Roster& roster, const GenerationLimits& limits, Calls calls)
      : roster_(roster), keeper_(limits), calls_(std::move(calls)) {}

  // All workers have joined and say that they survive.
  void begin(const Membership& membership);
  // Goes on from what another coordinator had decided.
  void resume(const JobRecord& record);
  // What this one has, without what is the coordinator's.
  JobRecord record() const;
  // One who was a member for that coordinator, or wanted to be. False: it is none any more.
  bool readmit(Participant& one, const Rejoin& rejoin);
  // Workers that have not come to this coordinator yet, whether or not they will.
  bool awaits_workers() const { return !missing_workers().empty(); }
  // No generation has begun since it goes on.
  bool is_resumed() const { return keeper_.is_resumed(); }
  // Nobody waits for those any more.
  void lose_missing(const std::string& why);
  bool has_begun() const { return keeper_.has_begun(); }
  // Every worker has its state and listens: from now on a loss is none of the job.
  bool is_active() const { return is_active_; }
  bool is_over() const { return keeper_.is_over(); }
  bool is_run_done() const { return keeper_.is_run_done(); }
  const Membership& membership() const { return keeper_.membership(); }
  // Those who gather together, by rank.
  std::vector<Participant*> workers() const;
  bool is_current(const Participant& one, std::int64_t generation) const {
    return keeper_.is_current(one.id, generation);
  }

  // Gives it an id: the one that it asks for, if nobody ever had it.
  void admit(Participant& one);
  void take(Participant& one, const comm::MessageEvent& request, const AwaitChange& await);
  void take(Participant& one, const comm::MessageEvent& request, const Report& report);
  void take(const comm::MessageEvent& request, const Depart& depart, std::int64_t sender);
  void take(const Participant& one, const comm::MessageEvent& request, const Told& told);
  void take(const comm::MessageEvent& request, const Resize& resize);
  void take(const comm::MessageEvent& request, const WaitForNobody& wish);
  void take(const comm::MessageEvent& request, const Expel& expel);
  // Why this worker cannot leave; empty: it can.
  std::string why_needed(std::int64_t id) const;
  void lose(Participant& one, const std::string& why);
  void end(const Participant& one);  // it says goodbye
  // It is to leave after its step, where it can.
  bool release(std::int64_t id, const std::string& why);
  void tick();

  const std::vector<MembershipEvent>& events() const { return events_; }

 private:
  static KeeperTime now();
  Participant* find(std::int64_t id) const;
  std::vector<std::int64_t> missing_workers() const;
  std::int64_t id_for(const Participant& one);
  void add(const Participant& one);
  // A request that is answered waits no more.
  void answer(std::optional<comm::MessageEvent>& request, const Message& message) const;
  void act(bool has_news = false);
  void perform(const Interrupt& interrupt);
  void perform(const Begin& begin);
  void perform(const Dismiss& dismiss);
  void perform(const FailJob& failure) const { calls_.fail(failure.why); }
  static void perform(const KeeperNote& /*note*/) {}  // it is noted already
  void note(const KeeperNote& note);
  void deny_gathers(const std::string& why) const;
  void check_active();

  Roster& roster_;
  GenerationKeeper keeper_;
  Calls calls_;
  bool is_active_ = false, is_end_kept_ = false;
  std::set<std::int64_t> used_ids_;
  std::vector<MembershipEvent> events_;
};

}  // namespace lockstep::cluster::detail
