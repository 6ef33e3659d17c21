// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/winograd.h"

#include <algorithm>

namespace lockstep::kernels {
namespace {

using std::int64_t;

// What oneDNN has: 3x3 planes, everywhere dense.
bool has_winograd(const ConvProblem& p, DType dtype) {
  const auto all = [&](const ConvProblem::Sizes& sizes, int64_t value) {
    return sizes[0] == value && sizes[1] == value;
  };
  return dtype == DType::float32 && p.spatial == 2 && p.groups == 1 && all(p.kernel, 3) &&
         all(p.stride, 1) && all(p.dilation, 1);
}

}  // namespace

// Time over the direct algorithm's, for tiles that are full: 36 products of matrices instead of
// 144, transforms of each tile that is read and written, spread over the channels of the other
// side, and the transform of the weights, spread over the tiles. The numbers were fitted to 390
// measurements (16 to 512 channels, planes of 4 to 56, batches of 1 to 64, all three passes;
// AVX-512); a margin of 1.2 leaves out what is a draw. Where this said yes, Winograd was 1.15
// to 2.2 times as fast, but for a handful of small planes (0.96 at worst).
bool winograd_wins(const ConvProblem& problem, DType dtype, WinogradPass pass) {
  constexpr double kProducts = 0.36, kRead = 4.0, kWrite = 8.0, kWeights = 18.0, kMargin = 1.2;
  constexpr int64_t kFewestChannels = 32, kFewestTiles = 64;
  if (!has_winograd(problem, dtype)) return false;
  const bool back = pass == WinogradPass::backward_data;
  const int64_t read = back ? problem.out_channels : problem.in_channels;
  const int64_t write = back ? problem.in_channels : problem.out_channels;
  const ConvProblem::Sizes& plane = back ? problem.input : problem.output;
  const int64_t tiles = problem.batch * ((plane[0] + 3) / 4) * ((plane[1] + 3) / 4);
  if (std::min(read, write) < kFewestChannels || tiles < kFewestTiles) return false;
  const double full =
      static_cast<double>(problem.batch * plane[0] * plane[1]) / static_cast<double>(16 * tiles);
  const double cost = kProducts + kRead / static_cast<double>(read) +
                      kWrite / static_cast<double>(write) + kWeights / static_cast<double>(tiles);
  return full > kMargin * cost;
}

}  // namespace lockstep::kernels
