// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

// The program's and the library's version, such as "0.1.0".
const char* version();

}  // namespace lockstep
