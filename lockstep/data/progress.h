// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace lockstep::data {

// How much is done, of how much in total or -1 when that is not known, and what is being done.
// Bytes for downloads, files for folders.
using Progress = std::function<void(std::int64_t, std::int64_t, std::string_view)>;

}  // namespace lockstep::data
