// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/nn/block.h"

namespace lockstep::nn {

struct SpectralNormOptions {
  std::string parameter = "weight";
  int iterations = 1;  // of the power method, for each forward
  double epsilon = 1e-12;
  int axis = 0;  // that of the outputs: 1 for transposed convolutions
};

// A layer whose weight is divided by its largest singular value (Miyato et al., 2018), which the
// power method follows from step to step: the direction `u` is a running statistic, from which
// predict mode starts without changing it. The weight, as a matrix, has one row for each output.
class SpectralNorm : public Block {
 public:
  SpectralNorm(BlockPtr layer, const SpectralNormOptions& options = {});
  Tensor forward(const Tensor& x) override;
  std::string description() const override;
  // The weight that the layer computes with.
  Tensor weight();

 private:
  void find_layer();
  void complete(const Tensor& x);
  Tensor matrix(const Tensor& weight) const;
  Tensor normalised(const Tensor& vector) const;
  BlockPtr layer_;
  SpectralNormOptions options_;
  Parameter weight_, u_;
};

std::shared_ptr<SpectralNorm> spectral_norm(BlockPtr layer,
                                            const SpectralNormOptions& options = {});

}  // namespace lockstep::nn
