// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/optim/pieces.h"
#include "lockstep/tensor/alignment.h"

namespace lockstep::train::detail {

// Memory for float32 values of all parameters that learn, one after the other.
class FlatBuffer {
 public:
  explicit FlatBuffer(std::size_t floats)
      : storage_(Storage::allocate(floats * sizeof(float), {})),
        data_(reinterpret_cast<float*>(storage_->data())) {
    std::fill(data_, data_ + floats, 0.0f);
  }
  // Somebody else's memory.
  explicit FlatBuffer(std::span<float> memory) : data_(memory.data()) {}
  float* data() const { return data_; }

 private:
  std::shared_ptr<Storage> storage_;
  float* data_;
};

// One parameter that learns: where its weights are, and its place in flat buffers.
struct Slice {
  std::size_t place;  // in StepGraph::parameters
  float* weight;
  std::size_t offset, count;
  double rate_multiplier, decay_multiplier;
};

// Elements [begin, end) of a slice: what one thread updates at a time.
struct Piece : optim::PieceRange {
  std::size_t slice;
  Piece(std::size_t slice_index, optim::PieceRange range)
      : optim::PieceRange(range), slice(slice_index) {}
};

// How flat buffers are divided. Slices stand in the order in which their gradients are made.
struct FlatLayout {
  std::vector<Slice> slices;
  std::size_t floats = 0;

  void add(Slice slice) {
    slice.offset = floats;
    floats += aligned(slice.count * sizeof(float)) / sizeof(float);
    slices.push_back(slice);
  }
  std::size_t offset(const Piece& piece) const { return slices[piece.slice].offset + piece.begin; }
  std::vector<Piece> pieces(std::size_t first_slice, std::size_t end_slice) const {
    std::vector<Piece> result;
    for (std::size_t s = first_slice; s < end_slice; ++s)
      for (std::size_t p = 0; p < optim::count_pieces(slices[s].count); ++p)
        result.push_back({s, optim::piece_range(slices[s].count, p)});
    return result;
  }
};

}  // namespace lockstep::train::detail
