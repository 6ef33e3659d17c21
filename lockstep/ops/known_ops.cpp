// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/known_ops.h"

namespace lockstep {

const KnownOps& known_ops() {
  static const KnownOps ops;
  return ops;
}

}  // namespace lockstep
