// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/io/archive.h"

namespace lockstep::io {

// Named tensors and short texts about them.
struct Safetensors {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata = {};
};

// Files of the safetensors library, which PyTorch's users exchange weights in. Tensors come in the
// order of their data; uint16 becomes int32, uint32 and uint64 int64. Throws NotFound, IoError,
// Corrupt that begins with the path, or Unsupported for 8-bit floats.
Safetensors read_safetensors(const std::string& path);
// All or nothing. Throws InvalidArgument when a name is there twice, is "__metadata__" or not
// UTF-8; NotFound, IoError.
void write_safetensors(const std::string& path, const Safetensors& contents);

}  // namespace lockstep::io
