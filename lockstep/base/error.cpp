// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"

namespace lockstep {

void fail_check(const char* what, const SourceLine& where) {
  throw InternalError(
      fmt::format("internal error: {} ({}:{}); please report it", what, where.file, where.line));
}

}  // namespace lockstep
