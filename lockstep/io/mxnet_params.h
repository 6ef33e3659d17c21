// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/io/archive.h"
#include "lockstep/io/read_options.h"

namespace lockstep::io {

// MXNet's .params files (mx.nd.save, Module, Gluon's save_parameters before 2.0), of every version.
// Names are the file's own, "arg:" and "aux:" with them; arrays of a list are named 0, 1, ... What
// is row_sparse or csr becomes dense, uint16 int32, uint32 and uint64 int64, and MXNet's empty
// array float32[0]. Throws NotFound, IoError, or Corrupt that begins with the path.
std::vector<NamedTensor> read_mxnet_params(const std::string& path,
                                           const ReadOptions& options = {});
// As MXNet since 0.12 reads it. A file with a tensor that has no axes or no elements, which that
// form cannot hold, is for MXNet from 1.5 on in its NumPy mode. All or nothing; throws
// InvalidArgument when a name is there twice, NotFound and IoError.
void write_mxnet_params(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace lockstep::io
