// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/membership.h"

namespace lockstep::cluster::detail {

// Since any beginning; never the clock of the machine.
using KeeperTime = std::chrono::milliseconds;

struct GenerationLimits {
  int min_workers = 1;
  int max_workers = std::numeric_limits<int>::max();
  // How long a member may take to come out of a generation that is over.
  KeeperTime patience{60'000};
  // False plants a bug that the simulation has to find: whoever was put out stays a member.
  bool fences = true;
};

// What a worker says when it has come out of its generation, or is ready for its first one.
struct WorkerReport {
  std::int64_t generation = 0;  // 0: none yet
  bool has_state = true;
  bool is_finished = false;  // it has nothing left to do
  std::int64_t step = -1;    // for people to read
  // The member whose part did not come in time, though nobody says that it is gone; -1: none.
  std::int64_t missed = -1;
  std::string why = {};
};

// What a keeper has decided so far, and another one goes on from.
struct KeeperState {
  Membership membership = {};
  int min_workers = 1, max_workers = 1;
  std::vector<std::int64_t> leaving = {};  // members that are to
  bool is_over = false;
  std::int64_t teller = -1;  // of the result; -1: not known yet
};

// What is to be done, in this order.
struct Interrupt {  // the member is to come out of its generation
  std::int64_t id = 0;
  bool is_urgent = false;  // at once; else after the step that it is at
  std::string why = {};
};
struct Begin {  // answers the reports of its members
  Membership membership = {};
};
struct Dismiss {  // answers whatever it asks
  enum class Kind { expelled, left, finished };
  std::int64_t id = 0;
  Kind kind = Kind::expelled;
  std::string why = {};
};
struct FailJob {
  std::string why = {};
};
// For people: the log, the terminal.
struct KeeperNote {
  enum class Kind { joined, lost, left, waiting, resized, generation };
  Kind kind = Kind::joined;
  std::int64_t id = -1;
  std::string why = {};
  std::int64_t generation = 0, step = -1;
  int workers = 0;
  KeeperTime took{0};  // of a generation: since the first one was lost, or asked
};
using KeeperAction = std::variant<Interrupt, Begin, Dismiss, FailJob, KeeperNote>;

// Decides who computes together: the coordinator's side of recovery. It makes no calls and knows no
// clock: what happens is told, what is to be done is taken. A job drives it, and a simulation.
// Servers are members of every generation; whether one of them may be lost is not decided here.
//
// A generation ends when somebody in it is lost, reports, leaves, or when a new worker is ready.
// All others are interrupted then, and report. When the last one that lives has, the next
// generation begins, with those who reported; nobody is in two, and nothing of an older one counts.
// When all have finished, the first is dismissed alone, to tell the result; the others stay until
// it has, and one of them is the first if it is lost before.
class GenerationKeeper {
 public:
  explicit GenerationKeeper(const GenerationLimits& limits) : limits_(limits) {}

  // The first generation, which has met already.
  void begin_with(const Membership& membership);
  // Goes on from what another keeper had decided: all members are to report, of this generation or
  // of the one in which they last heard of anything.
  void resume(const KeeperState& state, KeeperTime now);
  KeeperState state() const;
  bool has_begun() const { return membership_.generation > 0; }
  // Everybody has finished and the result is told, or the job has failed.
  bool is_over() const { return over_; }
  bool is_run_done() const { return over_ && teller_; }
  const Membership& membership() const { return membership_; }
  // It goes on from another keeper, and has begun no generation of its own yet.
  bool is_resumed() const { return is_resumed_; }
  // Whether what this member says of this generation counts.
  bool is_current(std::int64_t id, std::int64_t generation) const;
  // Members and those that want to be.
  bool knows(std::int64_t id) const { return find(id) != nullptr; }
  bool is_candidate(std::int64_t id) const;

  // A new worker gets ready; it reports when it is.
  void add(std::int64_t id, const std::string& host);
  void report(std::int64_t id, const WorkerReport& report, KeeperTime now);
  // Its process has ended, its connection is gone, or nothing was heard from it.
  void lose(std::int64_t id, const std::string& why, KeeperTime now);
  // It says goodbye.
  void end(std::int64_t id, KeeperTime now);
  // The one that tells the result has told it.
  void tell(std::int64_t id, KeeperTime now);
  // It wishes to leave after its step. Whether that is news.
  bool release(std::int64_t id, const std::string& why, KeeperTime now);
  // So many workers at the most from now on: those of the highest ranks leave. Where there are
  // fewer, others have to come.
  void resize(int workers, KeeperTime now);
  // The job is to stop: however few there are, they go on and do so.
  void wait_for_nobody(KeeperTime now);
  // To be called all the time.
  void tick(KeeperTime now);

  std::vector<KeeperAction> take_actions();

 private:
  struct One {
    Member member;
    bool is_in = false;       // in the present generation
    bool leaves = false;      // wants to
    bool is_surplus = false;  // it leaves since the job was made smaller
    bool is_ignored = false;  // put out, with a bug planted
    std::optional<WorkerReport> report = {};
    bool is_interrupted = false, is_urgent = false;
  };
  struct Change {
    KeeperTime since{0};
    bool is_urgent = false;
    std::string why = {};
    bool has_loss = false;     // somebody is gone
    bool tells_again = false;  // all have finished, and the result was not told
  };

  const One* find(std::int64_t id) const;
  One* find(std::int64_t id);
  void remove(std::int64_t id);
  void want_change(bool is_urgent, const std::string& why, KeeperTime now);
  void interrupt_all();
  void expel_late(KeeperTime now);
  void keep_surplus();
  bool expel_missed(KeeperTime now);
  void settle(KeeperTime now);
  bool all_have_reported() const;
  bool all_have_finished() const;
  void finish();
  void conclude();
  bool can_leave(const One& leaver) const;
  void dismiss_leavers();
  void let_go(std::int64_t id);
  std::vector<const One*> next_workers() const;
  void wait_for_more(int workers);
  void begin_next(const std::vector<const One*>& workers, KeeperTime now);
  void note(KeeperNote note) { actions_.emplace_back(std::move(note)); }

  GenerationLimits limits_;
  Membership membership_ = {};
  std::vector<One> all_ = {};         // in the order of ids
  std::vector<Member> servers_ = {};  // of every generation
  // Who was to leave before it was ready, when the keeper before ended.
  std::set<std::int64_t> leave_when_ready_ = {};
  std::optional<Change> change_ = {};
  int waits_with_ = -1;                      // so many were there when waiting was last said
  std::optional<std::int64_t> teller_ = {};  // of the result, since all have finished
  bool is_resumed_ = false;                  // and in no generation of its own yet
  bool is_told_ = false;                     // the result, before it was resumed
  bool over_ = false;
  std::vector<KeeperAction> actions_ = {};
};

}  // namespace lockstep::cluster::detail
