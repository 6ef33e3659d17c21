// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>

#include "lockstep/kvstore/servers/batched_answers.h"
#include "lockstep/kvstore/servers/pushed_table.h"
#include "lockstep/kvstore/servers/served_store.h"
#include "lockstep/kvstore/servers/served_table.h"
#include "lockstep/kvstore/servers/ticket_book.h"

namespace lockstep::kvstore {

// All that a server keeps, and what requests do with it: a state machine, whoever they come from
// and wherever the answers go. One thread at a time.
class ServerState {
 public:
  // `most_bytes` bounds what workers may have kept here.
  ServerState(int workers, std::size_t most_bytes, int threads, Answers& answers);

  // What cannot be done is a failure for who asked, which changes nothing.
  void handle(const comm::MessageEvent& event);
  // The worker's end: nobody waits for it.
  void worker_left(std::uint32_t worker);
  // Without a word: who waits for it is told; of tables only where the job does not go on with
  // others.
  void worker_lost(std::uint32_t worker, bool job_survives = false);
  // All of it, as one message, and what such a message says in place of what is here. Throws
  // Corrupt.
  comm::Payload save();
  // What waits for other requests is not in there: those, as they came.
  std::vector<comm::MessageEvent> waiting() const;
  void load(const comm::Payload& image);
  // Requests that are to be made now: of the clock, so that who waits for too long is told so.
  std::vector<comm::MessageEvent> due() const;
  // What nobody trains any more is given up.
  void all_left();

 private:
  using Topic = wire::Topic;
  void handle_single(const comm::MessageEvent& event);
  void dispatch(const comm::MessageEvent& event);
  void handle_table(const comm::MessageEvent& event, Topic topic);
  void handle_store(const comm::MessageEvent& event, Topic topic);
  void handle_pushed(const comm::MessageEvent& event, Topic topic);
  void make_table(const comm::MessageEvent& event);
  void make_pushed(const comm::MessageEvent& event);
  void open_tickets(const comm::MessageEvent& event);
  void join_store(const comm::MessageEvent& event);
  void leave_store(const comm::MessageEvent& event);
  void init_key(const comm::MessageEvent& event);
  void check_room(const std::string& what, std::size_t bytes, std::size_t taken) const;
  ServedTable& table(const std::string& name);
  PushedTable& pushed(const std::string& name);
  TicketBook& book(const std::string& name, std::uint64_t epoch);
  ServedStore& store(std::uint64_t number);
  std::size_t bytes() const;

  int workers_;
  std::size_t most_bytes_;
  BatchedAnswers answers_;
  ThreadTeam team_;
  std::map<std::string, ServedTable> tables_;
  std::map<std::string, PushedTable> pushed_;
  std::map<std::string, TicketBook> books_;  // by table
  std::map<std::uint64_t, ServedStore> stores_;
};

}  // namespace lockstep::kvstore
