// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/cluster/membership/job.h"
#include "lockstep/kvstore/synchronizer.h"

namespace lockstep::train {

// How a run goes on when the workers of its job change: it comes out of its step, and goes on in
// the next generation, in which all workers have the state of the one that was furthest.
class Survival {
 public:
  virtual ~Survival() = default;
  // Whether this worker comes to a run that is under way, and has its state from the others.
  virtual bool is_late() const = 0;
  // From here on members may change.
  virtual void begin() = 0;
  // Whether the generation is to end after this step. Called in every step.
  virtual bool wants_change() const = 0;
  // The next generation's; it outlives what is made of it until settle(). Null: this worker is not
  // needed any more. Throws CommError where that generation is over already: call it again.
  virtual kvstore::Mode* next(const cluster::Standing& standing) = 0;
  // This worker wishes to leave after its step; once it has been heard, wants_change() says so.
  virtual void leave() = 0;
  // The run is to stop: next(), in another thread, waits for nobody else any more.
  virtual void wait_for_nobody() = 0;
  // Whether the run is done, of a worker that is not needed any more.
  virtual bool is_run_done() const = 0;
  // The run is done and its result told, where everybody can find it: the others may go.
  virtual void conclude() = 0;
  virtual cluster::Alignment align(const cluster::Progress& own) = 0;
  virtual void settle() = 0;
  // Of the present generation; null: it is the first, whose mode was made elsewhere.
  virtual kvstore::Mode* mode() = 0;
  // This worker has come out of its last generation: there is no other run in this job.
  virtual bool has_ended() const = 0;
  virtual std::int64_t generation() const = 0;
  // What has happened to the members so far.
  virtual std::vector<cluster::MembershipEvent> events() const = 0;
};

// Makes the mode of a generation; the communicator is null for its only worker.
using MakeMode = std::function<std::shared_ptr<kvstore::Mode>(comm::Communicator* communicator,
                                                              const Membership& membership)>;

// Of a job that survives (JobOptions::survives); it outlives this. `first` is the first
// generation's mode, which is destroyed when the second one has begun; null: it is elsewhere.
std::unique_ptr<Survival> survive(cluster::Job& job, MakeMode make_mode,
                                  std::shared_ptr<kvstore::Mode> first = nullptr);
// Of whatever generation is present: of one that was made with its first mode. It refers to it.
std::unique_ptr<kvstore::Mode> present_mode(Survival& survival);

}  // namespace lockstep::train
