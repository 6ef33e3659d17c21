// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster::detail {

// Slurm's short form of names: "gpu,n[08-10,12]" is gpu, n08, n09, n10, n12. Throws InvalidArgument
// for text that is none.
std::vector<std::string> expand_host_list(std::string_view text);

}  // namespace lockstep::cluster::detail
