// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep::recipes {

// What a person reads of a mail: its subject and its body. Header lines say where it came from, and
// would fill a classifier's first hundred words. Text that does not begin with headers is all body.
// Markup in angle brackets is left out.
std::string readable_text(std::string_view text);

// Whether a token says something: it has a letter or a digit, or is one of "!" and "$".
bool is_telling(std::string_view token);

}  // namespace lockstep::recipes
