// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli/command.h"

namespace lockstep::cli {

// Those that change the workers of a job that is under way.
void add_scale_command(CLI::App& app, Action& action);
void add_leave_command(CLI::App& app, Action& action);
// Finds a job again whose launcher is gone.
void add_attach_command(CLI::App& app, Action& action);
void add_join_command(CLI::App& app, Action& action);

}  // namespace lockstep::cli
