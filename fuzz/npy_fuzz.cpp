// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/io/npy.h"

// A .npy file of any bytes gives tensors or a typed error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const lockstep::MemoryFile file(std::string_view(reinterpret_cast<const char*>(data), size));
  try {
    lockstep::load_npy(file.path());
  } catch (const lockstep::Error&) {
  }
  return 0;
}
