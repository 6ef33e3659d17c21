// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// The name that somebody meant who typed `word`: the one that the fewest letters taken out, put in
// or replaced make of it, a third of the word at most, or one that it begins. Empty when there is
// none.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

}  // namespace lockstep
