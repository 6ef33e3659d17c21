// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/graph/symbol.h"

// A graph file of any bytes gives a graph or a typed error; what was read can be written, read
// again and asked for its shapes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const lockstep::Symbol symbol = lockstep::Symbol::from_json(text);
    const std::string written = symbol.to_json();
    if (lockstep::Symbol::from_json(written).to_json() != written) __builtin_trap();
    symbol.infer();
  } catch (const lockstep::Error&) {
  }
  return 0;
}
