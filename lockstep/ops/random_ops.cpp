// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/families.h"

namespace lockstep::families {

Family random() { return {}; }

}  // namespace lockstep::families
