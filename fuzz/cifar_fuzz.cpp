// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string_view>

#include "lockstep/data/cifar.h"

// A CIFAR batch of any bytes gives images that make the same bytes again, or a typed error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    if (format_cifar(lockstep::data::parse_cifar(bytes, "input")) != bytes) __builtin_trap();
  } catch (const lockstep::Error&) {
  }
  return 0;
}
