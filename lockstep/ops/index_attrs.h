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
  std::int64_t rows = 0;
  template <class F>
  void visit(F&& f) {
    f("rows", rows, "how many rows the table has");
  }
};

// take, gather, pick, scatter_add
struct AlongAxisAttrs {
  int axis = 0;
  template <class F>
  void visit(F&& f) {
    f("axis", axis, "the axis of x that the positions count along");
  }
};

struct TakeBackwardAttrs {
  int axis = 0;
  std::int64_t size = 0;
  template <class F>
  void visit(F&& f) {
    f("axis", axis, "the axis that was taken from, counted from the front");
    f("size", size, "how many elements x has along that axis");
  }
};

struct RavelIndexAttrs {
  Ints dims;
  template <class F>
  void visit(F&& f) {
    f("dims", dims, "the sizes of the array that the positions are in");
  }
};

struct OneHotAttrs {
  std::int64_t depth = 0;
  DType dtype = DType::float32;
  template <class F>
  void visit(F&& f) {
    f("depth", depth, "how many classes there are: the size of the new last axis");
    f("dtype", dtype, "the result's dtype");
  }
};

struct SortAttrs {
  int axis = -1;
  bool descending = false;
  template <class F>
  void visit(F&& f) {
    f("axis", axis, "the axis to sort along");
    f("descending", descending, "the largest first");
  }
};

struct TopkAttrs {
  std::int64_t k = 1;
  int axis = -1;
  bool largest = true;
  template <class F>
  void visit(F&& f) {
    f("k", k, "how many elements are kept");
    f("axis", axis, "the axis to search along");
    f("largest", largest, "keep the largest; false: the smallest");
  }
};

}  // namespace lockstep
