// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstdio>

#include "lockstep/train/observers.h"

namespace lockstep::train {
namespace {

class PrintWarnings final : public Callback {
 public:
  void on_warning(FitContext& run, const std::string& line) override {
    if (run.is_first()) fmt::print(stderr, "lockstep: warning: {}\n", line);
  }
};

}  // namespace

CallbackPtr print_warnings() { return std::make_shared<PrintWarnings>(); }

}  // namespace lockstep::train
