// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "lockstep/base/error.h"
#include "lockstep/optim/optimizers.h"

namespace lockstep::optim {
namespace {

// Takes parameters out of a map by name and remembers which names it was asked for.
class Arguments {
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

  template <class Options>
  Arguments& take_common(Options& options) {
    return take("learning_rate", options.learning_rate)
        .take("wd", options.weight_decay)
        .take("clip_gradient", options.clip_value)
        .take("clip_norm", options.clip_norm);
  }

  template <class Options>
  Arguments& take_moments(Options& options) {
    return take("beta1", options.beta1)
        .take("beta2", options.beta2)
        .take("epsilon", options.epsilon);
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

OptimizerPtr make_sgd(Arguments& arguments) {
  SgdOptions options;
  arguments.take_common(options).take("momentum", options.momentum);
  arguments.take("nesterov", options.nesterov).finish();
  return sgd(options);
}

OptimizerPtr make_nag(Arguments& arguments) {
  SgdOptions options{.momentum = 0.9, .nesterov = true};
  arguments.take_common(options).take("momentum", options.momentum).finish();
  return sgd(options);
}

OptimizerPtr make_adam(Arguments& arguments) {
  AdamOptions options;
  arguments.take_common(options).take_moments(options).finish();
  return adam(options);
}

OptimizerPtr make_adamw(Arguments& arguments) {
  AdamWOptions options;
  arguments.take_common(options).take_moments(options).finish();
  return adamw(options);
}

OptimizerPtr make_adamax(Arguments& arguments) {
  AdamaxOptions options;
  arguments.take_common(options).take_moments(options).finish();
  return adamax(options);
}

OptimizerPtr make_nadam(Arguments& arguments) {
  NadamOptions options;
  arguments.take_common(options).take_moments(options);
  arguments.take("schedule_decay", options.schedule_decay).finish();
  return nadam(options);
}

OptimizerPtr make_adagrad(Arguments& arguments) {
  AdaGradOptions options;
  arguments.take_common(options).take("epsilon", options.epsilon).finish();
  return adagrad(options);
}

OptimizerPtr make_adadelta(Arguments& arguments) {
  AdaDeltaOptions options;
  arguments.take_common(options).take("rho", options.rho);
  arguments.take("epsilon", options.epsilon).finish();
  return adadelta(options);
}

OptimizerPtr make_rmsprop(Arguments& arguments) {
  RmsPropOptions options;
  arguments.take_common(options).take("gamma1", options.rho).take("gamma2", options.momentum);
  arguments.take("epsilon", options.epsilon).take("centered", options.centered).finish();
  return rmsprop(options);
}

OptimizerPtr make_ftrl(Arguments& arguments) {
  FtrlOptions options;
  arguments.take_common(options).take("lamda1", options.lambda1);
  arguments.take("beta", options.beta).finish();
  return ftrl(options);
}

OptimizerPtr make_lamb(Arguments& arguments) {
  LambOptions options;
  arguments.take_common(options).take_moments(options);
  arguments.take("lower_bound", options.lower_bound).take("upper_bound", options.upper_bound);
  arguments.take("bias_correction", options.bias_correction).finish();
  return lamb(options);
}

OptimizerPtr make_lars(Arguments& arguments) {
  LarsOptions options;
  arguments.take_common(options).take("momentum", options.momentum).take("eta", options.eta);
  arguments.take("epsilon", options.epsilon).finish();
  return lars(options);
}

OptimizerPtr make_signum(Arguments& arguments) {
  SignumOptions options;
  arguments.take_common(options).take("momentum", options.momentum);
  arguments.take("wd_lh", options.decoupled_decay).finish();
  return signum(options);
}

struct Maker {
  std::string_view name;
  OptimizerPtr (*make)(Arguments& arguments);
};

// Sorted by name.
constexpr Maker kMakers[] = {
    {"adadelta", make_adadelta}, {"adagrad", make_adagrad}, {"adam", make_adam},
    {"adamax", make_adamax},     {"adamw", make_adamw},     {"ftrl", make_ftrl},
    {"lamb", make_lamb},         {"lars", make_lars},       {"nadam", make_nadam},
    {"nag", make_nag},           {"rmsprop", make_rmsprop}, {"sgd", make_sgd},
    {"signum", make_signum}};

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Maker& maker : kMakers) names.emplace_back(maker.name);
  return names;
}

OptimizerPtr make_optimizer(std::string_view name,
                            const std::map<std::string, double>& parameters) {
  const std::string wanted = lower_case(name);
  for (const Maker& maker : kMakers)
    if (maker.name == wanted) {
      Arguments arguments(maker.name, parameters);
      return maker.make(arguments);
    }
  throw NotFound("optimizer '{}': no such rule, expected one of {}", name,
                 fmt::join(optimizer_names(), ", "));
}

}  // namespace lockstep::optim
