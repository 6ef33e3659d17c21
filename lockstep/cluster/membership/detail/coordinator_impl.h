// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cluster/membership/coordinator.h"
#include "lockstep/cluster/membership/detail/ended_processes.h"
#include "lockstep/cluster/membership/detail/gather_service.h"
#include "lockstep/cluster/membership/detail/generation_service.h"
#include "lockstep/cluster/membership/detail/registry_service.h"
#include "lockstep/cluster/membership/detail/roster.h"
#include "lockstep/cluster/membership/detail/succession.h"

namespace lockstep::cluster {

// All of it is of the thread that runs it, but for what is atomic and `ended`.
struct Coordinator::Impl {
  using Failure = detail::Failure;
  using Message = detail::Message;
  using Participant = detail::Participant;
  static constexpr std::int64_t kFirstGeneration = 1;

  CoordinatorOptions options;
  std::optional<comm::MessageServer> server;  // until run() is over
  comm::Endpoint endpoint;
  comm::Deadline deadline;
  detail::Roster roster;
  detail::RegistryService registry;
  std::vector<Complaint> complaints = {};
  std::int64_t generation = 0;  // until all have joined
  detail::GenerationService generations;
  detail::GatherService gathers;
  std::atomic<bool> tolerates_lost_servers = false, survives_lost_workers = false,
                    has_survived = false, is_run_done = false;
  std::atomic<std::int64_t> first_worker = 0;
  std::optional<Failure> over = {};
  detail::EndedProcesses ended = {};
  detail::Succession succession;
  std::stop_token stop = {};

  // coordinator.cpp: what happens in its life, in turns.
  explicit Impl(const CoordinatorOptions& given);
  detail::GatherService::Calls gather_calls();
  detail::GenerationService::Calls generation_calls();
  bool is_complete() const { return generation > 0; }
  void record(const std::string& failure = "") const;
  void log_refusals();
  void log_refusal_count();
  void take_events();
  void take(const comm::MessageEvent& event);
  void add(const comm::MessagePeer& peer);
  bool is_survivor(const Participant& one) const;
  void check_survivors();
  void lose_ended();
  std::chrono::milliseconds last_chance() const { return options.heartbeat / 6; }
  void note_survival();
  void check_deadlines();
  bool is_forgotten(const Participant& one) const;
  bool all_left() const;
  void turn();
  void close();
  void note_late_members();

  // coordinator_requests.cpp: what members and others ask.
  void answer(const comm::MessageEvent& request, const Message& message);
  void answer_all(Participant& one, const Failure& failure);
  static Message message_of(const comm::MessageEvent& request);
  static bool is_join(const comm::MessageEvent& request);
  void refuse_or_turn_away(Participant& one, const comm::MessageEvent& request,
                           const std::string& text);
  void serve(Participant& one, const comm::MessageEvent& event);
  template <class T>
  void receive(Participant& /*one*/, const comm::MessageEvent& /*request*/, const T& said) {
    throw Corrupt("a message of kind '{}' out of turn", said.kKind);
  }
  void receive(Participant& one, const comm::MessageEvent& request, const detail::MembershipQuery&);
  void receive(Participant& one, const comm::MessageEvent& request, const detail::Gather& gather);
  void receive(Participant& one, const comm::MessageEvent& request, const detail::AwaitLeave& wait);
  void check_leave();
  void receive(Participant& one, const comm::MessageEvent& request, const detail::Missed& missed);
  void receive(Participant& one, const comm::MessageEvent& request,
               const detail::Activity& activity);
  void receive(Participant& one, const comm::MessageEvent& request, const detail::Put& put);
  void receive(Participant& one, const comm::MessageEvent& request,
               const detail::CompareAndSet& compare);
  void receive(Participant& one, const comm::MessageEvent& request, const detail::Get& get);
  void receive(Participant& one, const comm::MessageEvent& request,
               const detail::AwaitChange& await);
  void receive(Participant& one, const comm::MessageEvent& request, const detail::Report& report);
  void receive(Participant& one, const comm::MessageEvent& request, const detail::Depart& depart);
  void receive(Participant& one, const comm::MessageEvent& request, const detail::Told& told);
  void receive(Participant& one, const comm::MessageEvent& request, const detail::Resize& resize);
  void receive(Participant& one, const comm::MessageEvent& request,
               const detail::WaitForNobody& wish);
  void receive(Participant& one, const comm::MessageEvent& request, const detail::Expel& expel);
  void deny(const comm::MessageEvent& request, const std::string& why);
  std::string why_fixed() const;
  static void check_greeted(const Participant& one, char kind);
  void check_survives(const Participant& one, char kind) const;
  static void check_joined(const Participant& one, char kind);

  // coordinator_members.cpp: who gets in, who goes, and how the job ends.
  void resume(const JobRecord& former);
  void leave(Participant& one);
  void take_goodbye(Participant& one);
  void lose(Participant& one, const std::string& reason);
  void receive(Participant& one, const comm::MessageEvent& request, const detail::Hello& hello);
  void take_complaint(const Participant& by, const detail::Missed& missed);
  void receive(Participant& one, const comm::MessageEvent& request, const detail::Join& join);
  void receive(Participant& one, const comm::MessageEvent& request, const detail::Rejoin& rejoin);
  void check_rejoined();
  void admit(Participant& one);
  void turn_away(Participant& one, const std::string& text);
  [[noreturn]] void refuse(const Participant& one, const std::string& why);
  [[noreturn]] void fail_over(const Participant& one, Failure::Type type, const std::string& text);
  [[noreturn]] void fail(const Failure& failure);
  void collect_final_complaints();
  void take_last(const comm::MessageEvent& event);
  void welcome();
};

}  // namespace lockstep::cluster
