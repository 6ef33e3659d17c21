// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/cluster/membership/coordinator.h"

namespace lockstep::testing {

// Runs it to its end: "done", or the kind and the words of what ended it.
inline std::string end_of(cluster::Coordinator& coordinator) {
  try {
    coordinator.run();
    return "done";
  } catch (const Error& error) {
    return std::string(error.kind()) + ": " + error.what();
  }
}

}  // namespace lockstep::testing
