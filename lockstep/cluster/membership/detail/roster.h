// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cluster/membership/detail/messages.h"
#include "lockstep/comm/messages/message_server.h"

namespace lockstep::cluster::detail {

// Somebody's connection to the coordinator: a member of the job once it has joined.
struct Participant {
  // Its part of an all_gather, and what is answered when all have given theirs.
  struct Gift {
    comm::MessageEvent request;
    std::string bytes;
  };

  comm::MessagePeer peer;
  bool joined = false, left = false, is_late = false;
  std::optional<comm::MessageEvent> hello = {}, joining = {}, awaits_leave = {};  // unanswered
  std::deque<Gift> given = {};
  std::optional<comm::MessageEvent> awaits_change = {}, reported = {};  // unanswered too
  std::optional<Change> untold = {};                  // a change that it did not wait for yet
  comm::Deadline late_since = comm::Deadline::max();  // nothing is heard from it
  std::optional<Failure> refusal = {};                // the answer to whatever it asks
  std::string other_protocol = {};                    // what differs; empty: nothing

  Join join = {};         // as it asked
  std::string host = {};  // as it said, until another machine has the same name
  std::int64_t id = -1;   // with its rank, when all are there
  int rank = -1;
  comm::Deadline gather_deadline = comm::Deadline::max();  // until when it waits for the others

  std::string report = {};  // what it said last of itself, and when
  comm::Deadline reported_at = comm::Clock::now();

  // As far as it is known.
  int known_rank() const { return rank >= 0 ? rank : join.rank; }
  // "rank 1 (b)", "server 0 (b)"
  std::string title() const;
};

std::string rank_title(Role role, int rank);

// How many a job has of each role. Ids count the workers first.
struct JobSize {
  int workers = 1, servers = 0;
  int of(Role role) const { return role == Role::worker ? workers : servers; }
  int members() const { return workers + servers; }
  std::int64_t id_of(Role role, int rank) const {
    return role == Role::worker ? rank : workers + rank;
  }
  bool operator==(const JobSize&) const = default;
};

class Roster {
 public:
  explicit Roster(JobSize size) : size_(size) {}

  const JobSize& size() const { return size_; }
  void set_size(const JobSize& size) { size_ = size; }
  std::vector<std::unique_ptr<Participant>>& participants() { return participants_; }
  const std::vector<std::unique_ptr<Participant>>& participants() const { return participants_; }
  // Null when there is none.
  Participant* find(std::uint64_t peer) const;
  // Those that have joined, in order of their ids once these are dealt.
  std::vector<Participant*> members() const;
  std::vector<Participant*> members(Role role) const;
  // By its id, once these are dealt; null when there is none.
  const Participant* member(std::int64_t id) const;
  int count_joined() const { return static_cast<int>(members().size()); }
  // Ranks, ids and hosts, when all have joined.
  void complete();
  Membership membership(std::int64_t generation) const;
  // Ids of those that have left, or whose heartbeat is late.
  std::vector<std::int64_t> absent() const;
  // What each member said last, once ids are dealt.
  std::vector<ActivityOf> reports(comm::Deadline now) const;
  // Whether every worker has said goodbye.
  bool have_workers_left() const;
  // Ids that nobody has asked for; none where members leave it to us to deal ranks.
  std::vector<std::int64_t> missing() const;
  // "; there: rank 0 (a); missing: rank 1, 2"
  std::string who_is_there() const;
  // "rank 1, 2, server 0"
  std::string titles(const std::vector<std::int64_t>& ids) const;

 private:
  void deal_ranks(Role role);
  void disambiguate_hosts();

  JobSize size_;
  std::vector<std::unique_ptr<Participant>> participants_;
};

}  // namespace lockstep::cluster::detail
