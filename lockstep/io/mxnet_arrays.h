// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/io/read_options.h"
#include "lockstep/io/stored_array.h"

namespace lockstep::io {

// What a file of MXNet's holds: as many names as arrays, or none for a list.
struct MxnetArrays {
  std::vector<StoredArray> arrays;
  std::vector<std::string> names;
};

// A .params file of any version, or the .npz and .npy that MXNet 2 writes under the same ending,
// by its first bytes. uint16 becomes int32, uint32 and uint64 int64, and MXNet's empty array
// float32[0]. Throws NotFound, IoError, or Corrupt that begins with the path.
MxnetArrays read_mxnet_arrays(const std::string& path, const ReadOptions& options = {});
// A .params file alone.
MxnetArrays read_mxnet_list(const std::string& path);
// Of a file's bytes; `name` stands for its path in errors.
MxnetArrays mxnet_arrays_from_bytes(std::string_view bytes, const std::string& name,
                                    const ReadOptions& options = {});
// One array's record alone, as a pickled NDArray holds it.
StoredArray mxnet_array_from_bytes(std::string_view bytes, const std::string& name);

// A .params file as MXNet since 0.12 reads it. With a tensor that has no axes or no elements, which
// that form cannot hold, it is for MXNet from 1.5 on in its NumPy mode. All or nothing; throws
// InvalidArgument when a name is there twice, NotFound and IoError.
void write_mxnet_arrays(const std::string& path, const MxnetArrays& arrays);

}  // namespace lockstep::io
