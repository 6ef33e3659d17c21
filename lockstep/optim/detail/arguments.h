// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

// The parameters that several rules have, under MXNet's names.
template <class Own>
class ArgumentNames {
 public:
  template <class Options>
  Own& take_common(Options& options) {
    return own()
        .take("learning_rate", options.learning_rate)
        .take("wd", options.weight_decay)
        .take("clip_gradient", options.clip_value)
        .take("clip_norm", options.clip_norm);
  }

  template <class Options>
  Own& take_moments(Options& options) {
    return own()
        .take("beta1", options.beta1)
        .take("beta2", options.beta2)
        .take("epsilon", options.epsilon);
  }

 private:
  Own& own() { return static_cast<Own&>(*this); }
};

// Takes parameters out of a map by name and remembers which names it was asked for.
class Arguments : public ArgumentNames<Arguments> {
 public:
  Arguments(std::string_view rule, const std::map<std::string, double>& given)
      : rule_(rule), left_(given) {}

  Arguments& take(const char* name, double& value) {
    known_.emplace_back(name);
    const auto found = left_.find(name);
    if (found == left_.end()) return *this;
    value = found->second;
    left_.erase(found);
    return *this;
  }

  Arguments& take(const char* name, bool& value) {
    double number = value ? 1.0 : 0.0;
    take(name, number);
    if (number != 0.0 && number != 1.0)
      throw InvalidArgument("{}: {} is {}, expected 0 or 1", rule_, name, number);
    value = number == 1.0;
    return *this;
  }

  void finish() const {
    if (left_.empty()) return;
    throw InvalidArgument("{}: no parameter '{}', expected some of {}", rule_, left_.begin()->first,
                          fmt::join(known_, ", "));
  }

 private:
  std::string_view rule_;
  std::map<std::string, double> left_;
  std::vector<std::string> known_;
};

// The other way: what it is asked to take, it writes down.
class ArgumentRecord : public ArgumentNames<ArgumentRecord> {
 public:
  ArgumentRecord& take(const char* name, double value) {
    values.emplace(name, value);
    return *this;
  }
  std::map<std::string, double> values;
};

// What list_arguments() of these options takes from the arguments.
template <class Options>
std::map<std::string, double> arguments_of(Options options) {
  ArgumentRecord record;
  list_arguments(record, options);
  return std::move(record.values);
}

// A rule's name, as an argument of templates.
struct RuleName {
  char text[24] = {};
  template <std::size_t n>
  consteval RuleName(const char (&name)[n]) {
    std::copy_n(name, n, text);
  }
};

// Makes the rule of that name; defined in the rule's file.
template <RuleName name>
OptimizerPtr make_rule(Arguments& arguments);

}  // namespace lockstep::optim
