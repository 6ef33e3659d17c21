// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// With padding.
std::string to_base64(std::string_view bytes);
// Throws Corrupt.
std::string from_base64(std::string_view text);

}  // namespace lockstep
