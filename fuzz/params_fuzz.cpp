// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/io/mxnet_arrays.h"
#include "lockstep/io/mxnet_params.h"

namespace {

template <class Read>
void try_to(Read&& read) {
  try {
    read();
  } catch (const lockstep::Error&) {
  }
}

}  // namespace

// A .params file of MXNet's of any bytes gives tensors or a typed error, and so does an array's
// record.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const lockstep::MemoryFile file(bytes);
  try_to([&] { lockstep::io::read_mxnet_params(file.path(), {.max_inflated = 1 << 20}); });
  try_to([&] { lockstep::io::mxnet_arrays_from_bytes(bytes, "bytes", {.max_inflated = 1 << 20}); });
  try_to([&] { lockstep::io::mxnet_array_from_bytes(bytes, "record"); });
  return 0;
}
