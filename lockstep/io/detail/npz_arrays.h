// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/io/detail/input_file.h"
#include "lockstep/io/read_options.h"
#include "lockstep/io/stored_array.h"

namespace lockstep::io::detail {

struct NpzArrays {
  std::vector<NamedArray> arrays;
  std::uint64_t inflatable;  // bytes that sparse arrays may still become
};

// The arrays of a .npz file, sparse ones as they are: the folders key/{data,indices,shape} and, of
// csr, key/indptr that MXNet 2 writes. Throws Corrupt that begins with the file's name.
NpzArrays npz_arrays(const InputFile& file, const ReadOptions& options);

}  // namespace lockstep::io::detail
