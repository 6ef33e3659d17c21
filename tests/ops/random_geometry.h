// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace lockstep::testing {

// A sequence that is the same with every compiler and library (splitmix64).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next();
  std::int64_t between(std::int64_t low, std::int64_t high);  // both included
  bool chance(int percent);
  std::int64_t one_of(std::initializer_list<std::int64_t> values);

 private:
  std::uint64_t state_;
};

using SpatialList = std::vector<std::int64_t>;  // one entry for each spatial axis

// A convolution that the op accepts. Usual ones, and those where kernels of libraries go wrong:
// padding above the kernel's half and above the kernel, inputs smaller than the kernel, rows that
// no window reaches, odd channels, one channel a group.
struct ConvGeometry {
  std::int64_t batch = 1, groups = 1, in_channels = 1, out_channels = 1;
  SpatialList input, kernel, stride, padding, dilation;

  SpatialList output() const;
  std::int64_t products() const;  // multiplications of one pass, padding included
  std::string str() const;        // "x[1,16,2,3,3] w[16,16,4,3,1] stride[2,2,2] ..."
};

// At most `most_products` multiplications.
ConvGeometry random_conv(Dice& dice, std::int64_t most_products);

// A pool that the op accepts: padding is less than the kernel. Dilation is a max pool's alone.
struct PoolGeometry {
  std::int64_t batch = 1, channels = 1;
  SpatialList input, kernel, stride, padding, dilation;
  bool ceil_mode = false, count_include_pad = true;

  std::string str() const;
};
PoolGeometry random_pool(Dice& dice);

}  // namespace lockstep::testing
