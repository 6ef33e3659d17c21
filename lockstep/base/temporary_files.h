// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// The name that AtomicFile writes `path` under until it is whole; another one at every call.
std::string temporary_name(std::string_view path);

// What a temporary name stands for; nothing when `name` is none.
std::optional<std::string> lasting_name(std::string_view name);

// Removes what killed processes left half written in a folder, of files whose lasting names
// (without the folder) `ours` accepts. What this process writes stays; a folder that is missing is
// empty.
void remove_temporaries(const std::string& folder,
                        const std::function<bool(const std::string&)>& ours);

}  // namespace lockstep
