// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "lockstep/base/membership.h"
#include "lockstep/cluster/membership/membership_event.h"

namespace lockstep::cluster::detail {

// Of what the coordinator and the members of a job say to each other. It grows when a message
// is new, or changes its form or its meaning.
inline constexpr int kProtocol = 7;
inline constexpr std::size_t kLongestMessage = 64 << 20;

// Whoever connects asks, and the coordinator answers: what each request is answered by stands at
// it. A Failure answers any of them.

// The first request of whoever connects. Only a Failure answers it, when there is one: so it comes
// to those too who ask nothing at the time. The forms of both never change: sides with different
// protocols can still say so.
struct Hello {
  static constexpr char kKind = 'H';
  int protocol = kProtocol;
  std::string host = {};  // this machine's name
  auto fields() { return std::tie(protocol, host); }
};

// Asks to be a member: Welcome, when all are there; at once, of a job that is under way, where the
// sender has to report before it is one.
struct Join {
  static constexpr char kKind = 'J';
  std::string version = {}, configuration = {};  // the same for all members
  Role role = Role::worker;
  int rank = -1;  // among the members of this role; -1: the coordinator deals one
  int workers = 1, servers = 0;
  std::string machine = {};  // equal for processes that can share memory
  bool tolerates_lost_servers = false;
  bool survives = false;  // where all workers say so, the job goes on without one that is lost
  bool is_late = false;   // it comes to a job that is under way; its rank is its id, if it has one
  auto fields() {
    return std::tie(version, configuration, role, rank, workers, servers, machine,
                    tolerates_lost_servers, survives, is_late);
  }
};

// Of one that had joined another coordinator, in whose place this one is: Noted.
struct Rejoin {
  static constexpr char kKind = 'j';
  Join join = {};
  std::int64_t id = 0;
  std::int64_t generation = 0;  // the last that it was in; 0: none yet
  auto fields() { return std::tie(join, id, generation); }
};

struct Welcome {
  static constexpr char kKind = 'W';
  std::int64_t id = 0;  // of the member that it is sent to
  Membership membership = {};
  std::vector<MembershipEvent> events = {};  // all that has happened to the members so far
  auto fields() { return std::tie(id, membership, events); }
};

// Bytes for all members of the sender's role, who wait so long for each other: Gathered, or Denied
// when the generation is over.
struct Gather {
  static constexpr char kKind = 'G';
  std::chrono::milliseconds timeout{0};
  std::string bytes = {};
  std::int64_t generation = 0;
  auto fields() { return std::tie(timeout, bytes, generation); }
};

// What each of them gave, in order of rank.
struct Gathered {
  static constexpr char kKind = 'A';
  std::vector<std::string> all = {};
  auto fields() { return std::tie(all); }
};

// Of anybody: MembershipReply.
struct MembershipQuery {
  static constexpr char kKind = 'Q';
  auto fields() { return std::tie(); }
};

struct MembershipReply {
  static constexpr char kKind = 'M';
  Membership membership = {};
  std::vector<std::int64_t> absent = {};  // ids of those that have left, or are not heard
  auto fields() { return std::tie(membership, absent); }
};

// Of members: AllLeft, when every worker has said goodbye.
struct AwaitLeave {
  static constexpr char kKind = 'L';
  auto fields() { return std::tie(); }
};

struct AllLeft {
  static constexpr char kKind = 'B';
  auto fields() { return std::tie(); }
};

// Why the job is over for whoever receives it.
struct Failure {
  static constexpr char kKind = 'E';
  enum class Type : std::int64_t { refused, lost, timeout };
  Type type = Type::refused;
  Role role = Role::worker;
  int rank = -1;  // who is to blame; -1: nobody in particular
  std::string host = {}, text = {};
  auto fields() { return std::tie(type, role, rank, host, text); }
};

// The sender ends, since it missed another member: Noted.
struct Missed {
  static constexpr char kKind = 'C';
  std::int64_t id = 0;
  std::string text = {};
  auto fields() { return std::tie(id, text); }
};

// What a member is doing, as often as it likes: Activities.
struct Activity {
  static constexpr char kKind = 'I';
  std::string text = {};
  auto fields() { return std::tie(text); }
};

// What a member said last, and how long ago; nothing said: since it joined.
struct ActivityOf {
  std::int64_t id = 0;
  std::string text = {};
  std::chrono::milliseconds age{0};
  bool has_left = false;
  auto fields() { return std::tie(id, text, age, has_left); }
};

struct Activities {
  static constexpr char kKind = 'O';
  std::vector<ActivityOf> all = {};
  auto fields() { return std::tie(all); }
};

struct Noted {
  static constexpr char kKind = 'N';
  auto fields() { return std::tie(); }
};

// Of members, to the registry (membership/registry.h): Entry or Denied.
struct Put {
  static constexpr char kKind = 'P';
  std::string name = {}, bytes = {};
  auto fields() { return std::tie(name, bytes); }
};

struct CompareAndSet {
  static constexpr char kKind = 'S';
  std::string name = {};
  std::int64_t expected = 0;  // version
  std::string bytes = {};
  auto fields() { return std::tie(name, expected, bytes); }
};

struct Get {
  static constexpr char kKind = 'R';
  std::string name = {};
  std::chrono::milliseconds timeout{0};
  std::int64_t newer_than = 0, from = -1;
  auto fields() { return std::tie(name, timeout, newer_than, from); }
};

// What a name holds now; of a Put without the bytes.
struct Entry {
  static constexpr char kKind = 'V';
  bool won = true;  // of a CompareAndSet
  std::int64_t version = 0;
  std::string bytes = {};
  auto fields() { return std::tie(won, version, bytes); }
};

// Why a request to the registry has no other answer. The job goes on.
struct Denied {
  static constexpr char kKind = 'D';
  enum class Type : std::int64_t { invalid, lost, timeout };
  Type type = Type::invalid;
  Role role = Role::worker;
  int rank = -1;  // whose fault it is; -1: nobody's in particular
  std::string host = {}, text = {};
  auto fields() { return std::tie(type, role, rank, host, text); }
};

// Of a worker of this generation: Change, when the generation is to end. Who knows already that it
// is to end after the step hears when it is to end at once.
struct AwaitChange {
  static constexpr char kKind = 'K';
  std::int64_t generation = 0;
  auto fields() { return std::tie(generation); }
};

struct Change {
  static constexpr char kKind = 'X';
  bool is_urgent = false;
  std::string why = {};
  auto fields() { return std::tie(is_urgent, why); }
};

// A worker has come out of its generation, or is ready for its first one: Welcome, when there is a
// next one, or Dismissed.
struct Report {
  static constexpr char kKind = 'T';
  std::int64_t generation = 0;
  bool has_state = true, is_finished = false;
  std::int64_t step = -1, missed = -1;
  std::string why = {};
  auto fields() { return std::tie(generation, has_state, is_finished, step, missed, why); }
};

// The sender may end.
struct Dismissed {
  static constexpr char kKind = 'Y';
  bool is_finished = true;  // so is the run; else the sender leaves it
  std::string why = {};
  auto fields() { return std::tie(is_finished, why); }
};

// Of a worker that wishes to leave after its step; of anybody, of the worker with that id: Noted,
// or Denied where there is no such worker, or none but it.
struct Depart {
  static constexpr char kKind = 'U';
  std::int64_t id = -1;  // the sender itself
  auto fields() { return std::tie(id); }
};

// The first worker has told the result of the run: the others may go: Noted.
struct Told {
  static constexpr char kKind = 't';
  auto fields() { return std::tie(); }
};

// Of anybody: so many workers from now on: Noted, or Denied where the job cannot have them.
struct Resize {
  static constexpr char kKind = 'Z';
  std::int64_t workers = 0;
  auto fields() { return std::tie(workers); }
};

// Of a worker that was asked to stop the job: nobody is waited for any more: Noted.
struct WaitForNobody {
  static constexpr char kKind = 'w';
  auto fields() { return std::tie(); }
};

// Of a member: this one holds up all others, though it is heard: Noted. It is put out.
struct Expel {
  static constexpr char kKind = 'F';
  std::int64_t id = 0;
  std::int64_t generation = 0;
  std::string why = {};
  auto fields() { return std::tie(id, generation, why); }
};

using Message =
    std::variant<Noted, Hello, Join, Rejoin, Welcome, Gather, Gathered, MembershipQuery,
                 MembershipReply, AwaitLeave, AllLeft, Failure, Missed, Put, CompareAndSet, Get,
                 Entry, Denied, AwaitChange, Change, Report, Dismissed, Depart, Told, Resize,
                 WaitForNobody, Expel, Activity, Activities>;

// Its kind and its fields.
std::string encode(const Message& message);
// Throws Corrupt for what is no message.
Message decode(std::string_view bytes);

}  // namespace lockstep::cluster::detail
