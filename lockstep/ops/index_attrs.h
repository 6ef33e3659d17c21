// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/ops/attrs.h"

// Attributes of the index and sort families.
namespace lockstep {

struct EmbeddingAttrs {
  template <class F>
  void visit(F&&) {}
};

struct EmbeddingBackwardAttrs {
  std::int64_t rows = 0;  // of the table
  template <class F>
  void visit(F&& f) {
    f("rows", rows);
  }
};

// take, gather, pick, scatter_add
struct AlongAxisAttrs {
  int axis = 0;
  template <class F>
  void visit(F&& f) {
    f("axis", axis);
  }
};

struct TakeBackwardAttrs {
  int axis = 0;           // of the tensor that was taken from, counted from the front
  std::int64_t size = 0;  // of that axis
  template <class F>
  void visit(F&& f) {
    f("axis", axis);
    f("size", size);
  }
};

struct RavelIndexAttrs {
  Ints dims;
  template <class F>
  void visit(F&& f) {
    f("dims", dims);
  }
};

struct OneHotAttrs {
  std::int64_t depth = 0;
  DType dtype = DType::float32;
  template <class F>
  void visit(F&& f) {
    f("depth", depth);
    f("dtype", dtype);
  }
};

struct SortAttrs {
  int axis = -1;
  bool descending = false;
  template <class F>
  void visit(F&& f) {
    f("axis", axis);
    f("descending", descending);
  }
};

struct TopkAttrs {
  std::int64_t k = 1;
  int axis = -1;
  bool largest = true;
  template <class F>
  void visit(F&& f) {
    f("k", k);
    f("axis", axis);
    f("largest", largest);
  }
};

}  // namespace lockstep
