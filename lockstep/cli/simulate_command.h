// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/cli/command.h"

namespace lockstep::cli {

void add_simulate_command(CLI::App& app, Action& action);

}  // namespace lockstep::cli
