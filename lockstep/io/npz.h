// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/io/archive.h"
#include "lockstep/io/read_options.h"

namespace lockstep::io {

// NumPy's .npz files (a zip of .npy files, io/npy.h), written by savez or savez_compressed, or by
// MXNet 2's save_parameters, whose sparse arrays become dense. Throws NotFound, IoError, or Corrupt
// that begins with the path.
std::vector<NamedTensor> read_npz(const std::string& path, const ReadOptions& options = {});
// Without compression; the same tensors are the same bytes. All or nothing; throws InvalidArgument
// when a name is there twice or has more than 65531 bytes, NotFound and IoError.
void write_npz(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace lockstep::io
