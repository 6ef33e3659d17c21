// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

// NumPy's .npy files, versions 1 to 3, C or Fortran order, little endian. uint16 becomes int32,
// uint32 and uint64 int64. Throws NotFound, IoError, or Corrupt that begins with the path.
Tensor load_npy(const std::string& path);
// bfloat16, which NumPy does not have, is written as two bytes without a meaning (dtype V2), and
// read so.
void save_npy(const std::string& path, const Tensor& tensor);

}  // namespace lockstep
