// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "lockstep/base/processor.h"
#include "lockstep/cli/job_control.h"
#include "lockstep/cli/train_options.h"
#include "lockstep/cluster/launch/launch.h"
#include "lockstep/cluster/membership/job.h"
#include "lockstep/kvstore/group.h"
#include "lockstep/kvstore/servers/served_job.h"
#include "lockstep/recipes/recipe_data.h"

namespace lockstep::cli {

// One process of mpirun or srun alone is no job: it may start workers of its own.
std::optional<cluster::Place> find_train_place();

// A worker knows from whoever launched it how many there are, and its rank. Throws WrongUsage when
// --workers says something else.
void take_place(TrainOptions& options, const std::optional<cluster::Place>& place);

// The rank of a worker whom the coordinator deals one.
void take_rank(TrainOptions& options, int rank);

// Workers that are not in step, and those that each have a part of the net or of the state, end
// with the first that is lost.
bool is_survivor(const TrainOptions& options);
// Of a training that has a store. Throws WrongUsage where it ends with the first worker that is
// lost. `config`: none where it is not known.
void check_store(const TrainOptions& options, const std::optional<recipes::RunConfig>& config);
// What a training says of its workers, to whoever launches them.
void take_limits(cluster::LaunchOptions& launch, const TrainOptions& options,
                 const recipes::RunConfig& config);

// `--workers W` of a process that nobody launched: starts this command W times on this machine, and
// so often again for the configuration's servers, and waits. Returns the job's exit status.
int launch_workers(const TrainOptions& options, const recipes::RunConfig& config);

// What the other processes of a job do: a server keeps parameters until the workers have left, a
// scheduler coordinates the members. Return the exit status.
int be_server(const TrainOptions& options, const cluster::Place& place,
              const recipes::RunConfig& config);
int be_scheduler(const TrainOptions& options, const cluster::Place& place);

// A launched worker's connection to the others. `config` is what they must agree on.
struct Workers {
  std::unique_ptr<cluster::Job> job;  // null: nobody launched this process
  std::unique_ptr<kvstore::Group> group;
  // Of several workers; null: there are no others.
  comm::Communicator* communicator() const;
  // This worker's share of its host's cores, by what each there may use. All workers call it.
  int fair_threads() const;
  // The best instruction set that all servers have; none where there are none.
  std::optional<InstructionSet> servers_set(const TrainOptions& options) const;
  // The job's servers, once the workers have agreed on an instruction set; null: there are none.
  const kvstore::ServedJob* servers(const TrainOptions& options, const recipes::RunConfig& config);
  std::optional<kvstore::ServedJob> served = {};
  std::optional<JobControl> control = {};  // of a job that goes on when workers are lost
  // Whether the job goes on when workers are lost, and whether this one comes to it later.
  bool survive() const { return job && job->survives(); }
  bool is_late() const { return job && job->is_late(); }
};
// The servers as the workers of this generation find them; none where there are none.
std::optional<kvstore::ServedJob> servers_now(cluster::Job& job, const TrainOptions& options,
                                              const recipes::RunConfig& config);
// Every host opens the data by itself. Returns its sum, where there are several workers. Throws
// InvalidArgument on all when some have other files.
std::string compare_data(const Workers& workers, const recipes::RecipeData& data,
                         const recipes::RunConfig& config);
Workers connect_workers(const TrainOptions& options, const std::optional<cluster::Place>& place,
                        const recipes::RunConfig& config);

}  // namespace lockstep::cli
