// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>

#include "lockstep/optim/detail/arguments.h"
#include "lockstep/optim/optimizers.h"

namespace lockstep::optim {
namespace {

struct Maker {
  std::string_view name;
  OptimizerPtr (*make)(Arguments& arguments);
};

template <RuleName... names>
constexpr std::array<Maker, sizeof...(names)> makers_of() {
  return {{{names.text, make_rule<names>}...}};
}

// Every rule there is, sorted.
constexpr auto kMakers = makers_of<"adadelta", "adagrad", "adam", "adamax", "adamw", "ftrl", "lamb",
                                   "lars", "nadam", "nag", "rmsprop", "sgd", "signum">();

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
