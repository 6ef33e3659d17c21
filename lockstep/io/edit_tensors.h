// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/io/archive.h"

namespace lockstep::io {

// Without the "arg:" and "aux:" that MXNet's Module and `export` put before names.
std::string without_mxnet_prefix(const std::string& name);
// With "aux:" for running statistics and "arg:" for all else, as MXNet's Module wants them.
std::string with_mxnet_prefix(const std::string& name);

// Whatever the regular expression matches in a name becomes `replacement`, in which $1 is what its
// first group matched. Throws InvalidArgument for a malformed expression, NotFound when no name
// matches.
void rename(std::vector<NamedTensor>& tensors, const std::string& pattern,
            const std::string& replacement);

// Floating tensors in another dtype; integers and bools stay as they are.
void cast_floats(std::vector<NamedTensor>& tensors, DType dtype);

}  // namespace lockstep::io
