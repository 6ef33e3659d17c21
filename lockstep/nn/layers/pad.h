// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/nn/block.h"
#include "lockstep/nn/layers/extents.h"

namespace lockstep::nn {

struct PadOptions {
  std::string mode = "constant";  // or edge, reflect, circular
  double value = 0.0;             // of the constant mode
};

// Adds elements at both ends of each spatial axis of x [N, C, spatial...].
class Pad : public Block {
 public:
  Pad(int axes, const Extents& widths, const PadOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string description() const override;

 private:
  int axes_;
  Ints widths_;
  PadOptions options_;
};

std::shared_ptr<Pad> pad1d(const Extents& widths, const PadOptions& options = {});
std::shared_ptr<Pad> pad2d(const Extents& widths, const PadOptions& options = {});
std::shared_ptr<Pad> pad3d(const Extents& widths, const PadOptions& options = {});

}  // namespace lockstep::nn
