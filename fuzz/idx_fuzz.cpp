// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string_view>

#include "lockstep/data/idx.h"

// An idx file of any bytes gives an array no larger than itself, or a typed error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const lockstep::Tensor array =
        lockstep::data::parse_idx({reinterpret_cast<const char*>(data), size}, "input");
    if (static_cast<std::size_t>(array.numel()) > size) __builtin_trap();
  } catch (const lockstep::Error&) {
  }
  return 0;
}
