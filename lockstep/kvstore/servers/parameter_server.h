// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>

#include "lockstep/comm/messages/message_server.h"
#include "lockstep/kvstore/servers/replica.h"
#include "lockstep/kvstore/servers/view.h"

namespace lockstep::kvstore {

// Takes the requests of all workers in the order of their coming, one at a time, each computed by
// all threads. While they are more than it can do, no more are read, and their senders wait.
class ParameterServer {
 public:
  // Listens from now on.
  ParameterServer(const ServedJob& job, const ServerOptions& options);

  comm::Endpoint endpoint() const { return messages_.endpoint(); }
  // Until every worker has left for good, or it is to stop.
  void run();

 private:
  class Replies final : public Answers {
   public:
    Replies(comm::MessageServer& messages, std::string name)
        : messages_(messages), name_(std::move(name)) {}
    void reply(const comm::MessageEvent& request, comm::Payload payload, int priority) override;
    void fail(const comm::MessageEvent& request, const std::string& why) override;
    comm::MessageBuffer allocate(const comm::MessageEvent& request, std::size_t bytes) override;

   private:
    comm::MessageServer& messages_;
    std::string name_;
  };

  bool has_replicas() const { return job_.replicas > 1; }
  void note_peer(const comm::MessageEvent& event);
  void give_up_the_lost();
  bool is_over() const;

  void take(const comm::MessageEvent& event);
  void follow(const comm::MessageEvent& event);
  void follow_next(const comm::MessageEvent& event, int range);
  Replica* primary_of(int range);
  void add(int range, Replica::Role role);

  // The view may have changed: this server's parts in it do so too.
  void begin_view();
  void adopt(const View& view);
  void look_at_view();
  void look_after_backups();
  void lose_backup(int range, Replica& replica);
  void find_backup(int range, Replica& replica);
  void name_backup(int range, BackupLink& link);
  bool waits_for_first_backup();
  comm::MessageClientOptions link_options(int server) const;

  const ServedJob job_;
  ServerOptions options_;
  comm::MessageServer messages_;
  Replies answers_;
  SharedView shared_;
  View view_;
  std::map<int, Replica> replicas_;  // by range
  // Of a primary that this server follows: its next request's number, and those that overtook it.
  struct Followed {
    std::uint64_t next = 1;
    std::map<std::uint64_t, comm::MessageEvent> early = {};
  };
  std::map<std::uint64_t, Followed> followed_;  // by connection
  comm::Deadline next_try_ = {};                // to find a backup
  comm::Deadline next_look_ = {};               // at the view
  comm::Deadline started_ = comm::Clock::now();
  bool is_starting_;
  std::vector<comm::MessageEvent> early_;               // requests that came before there was one
  std::map<int, std::set<std::uint64_t>> connections_;  // by worker
  std::set<int> left_;                                  // workers that had some, and have none
  std::map<int, comm::Deadline> lost_;                  // workers whose last one was cut, and when
  comm::Deadline last_left_ = {};
};

// What a worker calls itself.
std::string worker_name(int rank);
// "server 2"
std::string server_name(int number);

}  // namespace lockstep::kvstore
