// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/help.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace lockstep::cli {
namespace {

// Longer lists stand in the documentation.
constexpr std::size_t kShownChoices = 16;

// What checks add to a type: "NAME:{sgd,adam}", "N:INT in [1 - 64]".
std::string without_checks(const std::string& type) {
  std::size_t end = type.size();
  for (const char* begin : {":{", ":INT in [", ":FLOAT in ["})
    end = std::min(end, type.find(begin));
  return type.substr(0, end);
}

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(32); }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";
    return " " + without_checks(option->get_type_name());
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    const std::vector<std::string> choices = choices_of(*option);
    if (!choices.empty() && choices.size() <= kShownChoices)
      text += fmt::format(": {}", fmt::join(choices, ", "));
    if (!option->get_default_str().empty())
      text += fmt::format(" (default {})", option->get_default_str());
    return text;
  }
};

}  // namespace

// A check of membership shows its names in the type: "NAME:{sgd,adam}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{'), close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace lockstep::cli
