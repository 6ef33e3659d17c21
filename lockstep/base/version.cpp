// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/version.h"

namespace lockstep {

const char* version() { return LOCKSTEP_VERSION; }

}  // namespace lockstep
