// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/io/mxnet_params.h"

// A .params file of MXNet's of any bytes gives tensors or a typed error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const lockstep::MemoryFile file(std::string_view(reinterpret_cast<const char*>(data), size));
  try {
    lockstep::io::read_mxnet_params(file.path(), {.max_inflated = 1 << 20});
  } catch (const lockstep::Error&) {
  }
  return 0;
}
