// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/families.h"

namespace lockstep::families {

Family index() { return {}; }

}  // namespace lockstep::families
