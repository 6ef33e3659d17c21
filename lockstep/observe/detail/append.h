// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::observe {

// Writes all of `bytes` at `size`, the file's end, and moves it; or throws IoError and leaves the
// file as it was.
void append_whole(int descriptor, std::int64_t& size, std::string_view bytes,
                  const std::string& path);

}  // namespace lockstep::observe
