// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"
#include "lockstep/cli/bench_step.h"

namespace lockstep::cli {

std::unique_ptr<StepRunner> make_step_runner(const std::string& model, const std::string& dtype) {
  throw Unsupported("bench step: {} in {}: the compiled step is not written yet", model, dtype);
}

}  // namespace lockstep::cli
