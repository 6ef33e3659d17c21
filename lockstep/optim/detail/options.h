// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/optim/detail/rules.h"
#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

// Options are checked once, where a rule is made: "adam: beta1 is 1.5, expected a number in [0,
// 1)".
struct OptionChecks {
  std::string_view rule;

  void in_unit(const char* name, double value) const {
    if (!(value >= 0.0 && value < 1.0)) fail(name, value, "a number in [0, 1)");
  }
  void positive(const char* name, double value) const {
    if (!(value > 0.0 && std::isfinite(value))) fail(name, value, "a number above 0");
  }
  void not_negative(const char* name, double value) const {
    if (!(value >= 0.0 && std::isfinite(value))) fail(name, value, "0 or a number above it");
  }
  [[noreturn]] void fail(const char* name, double value, const char* expected) const {
    throw InvalidArgument("{}: {} is {}, expected {}", rule, name, value, expected);
  }
};

// The fields that every options struct has.
template <class Options>
CommonOptions common_options(std::string_view rule, const Options& options) {
  const OptionChecks check{rule};
  check.not_negative("learning_rate", options.learning_rate);
  check.not_negative("weight_decay", options.weight_decay);
  check.not_negative("clip_value", options.clip_value);
  check.not_negative("clip_norm", options.clip_norm);
  return {.learning_rate = options.learning_rate,
          .weight_decay = options.weight_decay,
          .clip_value = options.clip_value,
          .clip_norm = options.clip_norm};
}

inline float single(double value) { return static_cast<float>(value); }

inline rules::Gradient gradient_of(const UpdateContext& context, double weight_decay) {
  const bool clips = context.clip_value > 0.0;
  return {.scale = single(context.gradient_scale),
          .limit = clips ? single(context.clip_value) : std::numeric_limits<float>::infinity(),
          .decay = single(weight_decay)};
}

inline rules::Gradient gradient_of(const UpdateContext& context) {
  return gradient_of(context, context.weight_decay);
}

inline rules::Moments moments_of(double beta1, double beta2) {
  return {.keep1 = single(beta1),
          .take1 = single(1.0 - beta1),
          .keep2 = single(beta2),
          .take2 = single(1.0 - beta2)};
}

// By how much a running mean that started at zero falls short after `step` steps.
inline double correction(double beta, std::int64_t step) {
  return 1.0 - std::pow(beta, static_cast<double>(step));
}

}  // namespace lockstep::optim
