// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "lockstep/ops/kernel.h"

namespace lockstep {

struct FullAttrs {
  Ints shape;
  double value = 0.0;
  DType dtype = DType::float32;
  Device device = {};
  template <class F>
  void visit(F&& f) {
    f("shape", shape);
    f("value", value);
    f("dtype", dtype);
    f("device", device);
  }
};

struct ArangeAttrs {
  double start = 0.0;
  double stop = 0.0;
  double step = 1.0;
  DType dtype = DType::float32;
  Device device = {};
  template <class F>
  void visit(F&& f) {
    f("start", start);
    f("stop", stop);
    f("step", step);
    f("dtype", dtype);
    f("device", device);
  }
};

struct LinspaceAttrs {
  double start = 0.0;
  double stop = 1.0;
  std::int64_t count = 0;
  DType dtype = DType::float32;
  Device device = {};
  template <class F>
  void visit(F&& f) {
    f("start", start);
    f("stop", stop);
    f("count", count);
    f("dtype", dtype);
    f("device", device);
  }
};

struct EyeAttrs {
  std::int64_t rows = 0;
  std::int64_t columns = -1;
  std::int64_t diagonal = 0;
  DType dtype = DType::float32;
  Device device = {};
  template <class F>
  void visit(F&& f) {
    f("rows", rows);
    f("columns", columns);
    f("diagonal", diagonal);
    f("dtype", dtype);
    f("device", device);
  }
};

namespace kernels {

std::span<const KernelCandidate> full_kernels();
std::span<const KernelCandidate> arange_kernels();
std::span<const KernelCandidate> linspace_kernels();
std::span<const KernelCandidate> eye_kernels();

}  // namespace kernels
}  // namespace lockstep
