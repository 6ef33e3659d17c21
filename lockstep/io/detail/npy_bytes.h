// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/tensor/tensor.h"

namespace lockstep::io::detail {

// The array in a .npy file's bytes. Throws Corrupt that begins with `path`.
Tensor npy_from_bytes(std::string_view bytes, const std::string& path);
// What stands before the elements.
std::string npy_header(const TensorInfo& info);

}  // namespace lockstep::io::detail
