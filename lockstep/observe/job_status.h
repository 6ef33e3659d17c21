// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/process_mark.h"

namespace lockstep::observe {

// What a member of a job is doing, as it says itself.
struct MemberStatus {
  std::int64_t id = 0;
  std::string role = "worker";
  int rank = 0;  // among those of its role
  std::string host = {};
  std::int64_t pid = 0;
  std::int64_t first_shard = 0, end_shard = 0;  // of each step; none of a server
  std::int64_t step = 0;                        // done
  // Of the last steps, on average.
  double compute_s = 0.0, wait_s = 0.0, bytes_sent = 0.0;
  // What it waits for now.
  struct Waiting {
    std::string operation = {};
    int rank = -1;  // of the worker; -1: the operation says who it is
    double seconds = 0.0;
  };
  std::optional<Waiting> waiting = {};
  double heard_s = 0.0;  // since it was heard last
  bool has_left = false;
};

// How a job stands: status.json in its run folder, about once a second.
struct JobStatus {
  enum class State { starting, training, finished, stopped, failed };
  State state = State::starting;
  std::string message = {};  // why it failed; how to go on
  std::string recipe = {}, run = {};
  std::int64_t generation = 0;
  std::int64_t workers = 1, servers = 0;
  std::int64_t step = 0, total_steps = 0, epoch = 0;
  double loss = 0.0, samples_per_s = 0.0;
  double began = 0.0, written = 0.0;  // seconds since 1970
  ProcessMark launcher = {};          // whom a signal stops
  ProcessMark writer = {};            // the first worker
  std::vector<MemberStatus> members = {};

  bool is_over() const { return state >= State::finished; }
};

std::string to_json(const MemberStatus& member);
std::string to_json(const JobStatus& status);
// Throw Corrupt for what is no status; `place` begins the message.
MemberStatus member_from_json(const std::string& text, const std::string& place);
JobStatus status_from_json(const std::string& text, const std::string& place);

// In place of the old one, which a reader sees until then. It is not waited for until it is on the
// disk. False when it cannot be written.
bool write_status(const std::string& folder, const JobStatus& status) noexcept;
// Throws NotFound where there is none.
JobStatus read_status(const std::string& folder);

// What a job's status means by now.
struct Verdict {
  // running: it writes. stale: it should have written. dead: the process that writes is gone.
  enum class Kind { running, finished, stopped, failed, stale, dead };
  Kind kind = Kind::running;
  std::string reason = {};  // for people; empty: there is nothing to say
};
std::string to_string(Verdict::Kind kind);
// `now`: seconds since 1970.
Verdict judge(const JobStatus& status, double now);

// For a terminal.
std::string status_text(const JobStatus& status, const Verdict& verdict, double now);
// For programs: the status with its verdict.
std::string status_json(const JobStatus& status, const Verdict& verdict);

}  // namespace lockstep::observe
