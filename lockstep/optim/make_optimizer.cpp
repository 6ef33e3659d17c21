// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "lockstep/optim/detail/arguments.h"
#include "lockstep/optim/optimizers.h"

namespace lockstep::optim {

// Each beside its rule.
OptimizerPtr make_adadelta(Arguments& arguments);
OptimizerPtr make_adagrad(Arguments& arguments);
OptimizerPtr make_adam(Arguments& arguments);
OptimizerPtr make_adamax(Arguments& arguments);
OptimizerPtr make_adamw(Arguments& arguments);
OptimizerPtr make_ftrl(Arguments& arguments);
OptimizerPtr make_lamb(Arguments& arguments);
OptimizerPtr make_lars(Arguments& arguments);
OptimizerPtr make_nadam(Arguments& arguments);
OptimizerPtr make_nag(Arguments& arguments);
OptimizerPtr make_rmsprop(Arguments& arguments);
OptimizerPtr make_sgd(Arguments& arguments);
OptimizerPtr make_signum(Arguments& arguments);

namespace {

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
