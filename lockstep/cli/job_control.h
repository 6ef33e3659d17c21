// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/process_mark.h"
#include "lockstep/comm/socket.h"

namespace lockstep::cli {

// What others need to change the workers of a job that is under way.
struct JobControl {
  comm::Endpoint coordinator = {};
  std::string secret = {};
  ProcessMark launcher = {};
  // Where the job's members find their coordinator, which may be another one by now, and its name
  // there; empty: it is the launcher for good.
  std::string store = {}, job = {};
};

// control.json in the run folder, for its owner alone. What cannot be written there is not: the job
// runs without.
void write_control(const std::string& folder, const JobControl& control) noexcept;
void remove_control(const std::string& folder) noexcept;

// Of a run folder: as its job wrote it. Throws NotFound, Corrupt.
JobControl read_control(const std::string& folder, const std::string& command);

// Of a run folder, or of HOST:PORT with the secret in LOCKSTEP_SECRET; `command` begins messages.
// Throws NotFound where no such job runs, InvalidArgument.
JobControl find_control(const std::string& which, const std::string& command);

}  // namespace lockstep::cli
