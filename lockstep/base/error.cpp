// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"

namespace lockstep {

void fail_check(const char* what, const std::source_location& where) {
  throw InternalError(fmt::format("internal error: {} ({}:{}); please report it", what,
                                  where.file_name(), where.line()));
}

}  // namespace lockstep
