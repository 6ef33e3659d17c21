// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::cli {

// `text` in double quotes, as every reader of YAML takes it back unchanged. None when it is not
// UTF-8.
std::optional<std::string> yaml_string(std::string_view text);

}  // namespace lockstep::cli
