// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::cli {

// The program: 0 on success, 2 on wrong usage, 1 on everything else, and then one clear line on
// standard error.
int run(int argc, const char* const* argv);

}  // namespace lockstep::cli
