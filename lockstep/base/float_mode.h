// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

// How this thread's processor rounds and treats subnormal numbers.
std::uint64_t float_mode();
void set_float_mode(std::uint64_t mode);

// While it lives, numbers smaller than 1.2e-38 count as zero in this thread, and in the threads of
// a ThreadTeam that work for it. Processors compute with them many times slower, and gradients that
// fade away bring them forth.
class FlushSubnormals {
 public:
  FlushSubnormals();
  ~FlushSubnormals() { set_float_mode(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  std::uint64_t before_;
};

}  // namespace lockstep
