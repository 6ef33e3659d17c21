// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/error.h"

namespace lockstep::testing {

// What f's InvalidArgument says; empty when it throws none.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return {};
}

}  // namespace lockstep::testing
