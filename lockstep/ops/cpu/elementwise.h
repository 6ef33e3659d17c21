// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

#include "lockstep/ops/kernel.h"

namespace lockstep::kernels {

struct ClipAttrs {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  template <class F>
  void visit(F&& f) {
    f("low", low);
    f("high", high);
  }
};

struct CastAttrs {
  DType dtype = DType::float32;
  template <class F>
  void visit(F&& f) {
    f("dtype", dtype);
  }
};

// The kernels of an op of ops/elementwise.cpp.
std::span<const KernelCandidate> elementwise_kernels(std::string_view op);

}  // namespace lockstep::kernels
