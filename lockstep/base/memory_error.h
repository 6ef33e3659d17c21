// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <stdexcept>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {

// Throws OutOfMemory: what did not fit, and the limits that this process has.
[[noreturn]] void throw_no_memory(const std::string& what);

// Does `work`; where memory runs out, the error begins with `what`.
template <class Work>
auto with_memory_for(const std::string& what, Work&& work) {
  try {
    return work();
  } catch (const OutOfMemory& error) {
    if (std::string(error.what()).starts_with(what)) throw;
    throw OutOfMemory("{}: {}", what, error.what());
  } catch (const std::bad_alloc&) {
    throw_no_memory(what);
  } catch (const std::length_error&) {
    throw_no_memory(what);
  }
}

}  // namespace lockstep
