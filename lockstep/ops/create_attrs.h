// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"

// Attributes of the create family.
namespace lockstep {

// What all of them end with.
template <class F>
void visit_placement(F& f, DType& dtype, Device& device) {
  f("dtype", dtype, "the result's dtype");
  f("device", device, "the device that holds the result");
}

struct FullAttrs {
  Ints shape;
  double value = 0.0;
  DType dtype = DType::float32;
  Device device = {};
  template <class F>
  void visit(F&& f) {
    f("shape", shape, "the result's sizes");
    f("value", value, "what every element is");
    visit_placement(f, dtype, device);
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
    f("start", start, "the first element");
    f("stop", stop, "elements end before this");
    f("step", step, "the distance of two neighbours; negative: downwards");
    visit_placement(f, dtype, device);
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
    f("start", start, "the first element");
    f("stop", stop, "the last element");
    f("count", count, "how many elements there are");
    visit_placement(f, dtype, device);
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
    f("rows", rows, "how many rows there are");
    f("columns", columns, "how many columns there are; -1: as many as rows");
    f("diagonal", diagonal, "which diagonal: 0 the main one, positive above it");
    visit_placement(f, dtype, device);
  }
};

}  // namespace lockstep
