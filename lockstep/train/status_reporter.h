// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/cluster/membership/job.h"
#include "lockstep/observe/job_status.h"
#include "lockstep/train/callback.h"

namespace lockstep::train {

struct StatusOptions {
  cluster::Job* job = nullptr;  // of whose coordinator others hear; null: this process is alone
  std::int64_t shards = 0;      // of a step
  std::string folder = {};      // where the first worker keeps status.json; empty: nowhere
  bool is_first = true;         // worker, until the run has begun
  // What is known when the run begins: recipe, run, launcher.
  observe::JobStatus about = {};
  // Somebody has left a request to stop in the folder (request_stop).
  std::function<void()> on_stop = {};
  std::chrono::milliseconds every{1'000};
  // Of a job that survives: a worker for which others wait so long is put out. 0: never.
  std::chrono::milliseconds stall_timeout{0};
};

// Says about once a second what this process of a job is doing, in a thread of its own: to the
// job's coordinator and, on the first worker, in the run folder's status.json, with what all the
// others say. Servers have one too. It never holds up a step, and what it cannot say is lost.
class StatusReporter {
 public:
  explicit StatusReporter(const StatusOptions& options);
  // Where nobody has said how the run ended, it failed.
  ~StatusReporter();
  StatusReporter(const StatusReporter&) = delete;
  StatusReporter& operator=(const StatusReporter&) = delete;

  // Tells it of the run's steps. It outlives this object's end.
  CallbackPtr callback() const;
  // The last word: nothing is written afterwards.
  void end(observe::JobStatus::State state, const std::string& message = {});
  // Nothing is written any more: the folder goes.
  void discard();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Asks the job that trains in a folder to stop, by whatever storage it has in common with whoever
// asks. It looks for that once a second. Throws IoError.
void request_stop(const std::string& folder);

}  // namespace lockstep::train
