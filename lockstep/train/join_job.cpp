// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/join_job.h"

#include "lockstep/kvstore/allreduce.h"
#include "lockstep/train/same_bits.h"

namespace lockstep::train {

OwnJob join_job(const cluster::JobOptions& options) {
  OwnJob own;
  if (const std::optional<cluster::Place> place = cluster::find_place()) {
    own.job = std::make_unique<cluster::Job>(*place, options);
    own.mode = kvstore::allreduce_mode(own.job->communicator(), own.job->membership());
  } else {
    own.mode = kvstore::local_mode();
  }
  agree_on_instruction_set(own.mode->group());
  return own;
}

}  // namespace lockstep::train
