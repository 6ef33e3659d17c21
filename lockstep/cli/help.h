// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {

// The names that an option's membership check allows; none where it has no such check.
std::vector<std::string> choices_of(const CLI::Option& option);

// CLI11's pages with what a newcomer needs: an option's choices and default are in its description,
// not in its name.
std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace lockstep::cli
