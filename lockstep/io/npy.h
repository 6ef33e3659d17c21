// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// NumPy's .npy files, versions 1 to 3, C order, little endian. Throws NotFound, IoError, or Corrupt
// that begins with the path.
Tensor load_npy(const std::string& path);
// bfloat16, which NumPy does not have, is InvalidArgument.
void save_npy(const std::string& path, const Tensor& tensor);

}  // namespace lockstep
