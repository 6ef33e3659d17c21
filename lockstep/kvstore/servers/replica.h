// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/kvstore/servers/backup_link.h"
#include "lockstep/kvstore/servers/served_job.h"
#include "lockstep/kvstore/servers/server_state.h"

namespace lockstep::kvstore {

// A range of everything, on a server that is its primary or its backup.
class Replica {
 public:
  enum class Role { primary, backup };

  Replica(int range, Role role, const ServedJob& job, const ServerOptions& options,
          Answers& answers);

  Role role() const { return role_; }
  void promote() { role_ = Role::primary; }

  // A worker's request, at the primary.
  void handle(const comm::MessageEvent& event);
  // What the primary forwards, at the backup. Throws Corrupt.
  void follow(const comm::MessageEvent& event);
  void worker_left(std::uint32_t worker, bool was_last);
  // Every now and then: who waits for too long is told so.
  void look_at_clock();
  void worker_lost(std::uint32_t worker, bool job_survives);

  // Sends all that is here to another server, and what is done from now on.
  void fill(int server, const comm::MessageClientOptions& options);
  BackupLink* link() { return link_.get(); }
  // Answers that waited for the backup go, or are dropped where another server gives them.
  void release_link();
  void drop_link() { link_.reset(); }

 private:
  void send(std::vector<HeldAnswer> answers);
  void send_kept();

  int range_;
  Role role_;
  std::chrono::milliseconds timeout_;
  Answers& answers_;
  AnswerKeeper kept_;
  ServerState state_;
  std::unique_ptr<BackupLink> link_;  // the primary's
};

}  // namespace lockstep::kvstore
