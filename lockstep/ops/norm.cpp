// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/families.h"

namespace lockstep::families {

Family norm() { return {}; }

}  // namespace lockstep::families
