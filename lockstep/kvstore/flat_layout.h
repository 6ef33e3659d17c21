// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/optim/pieces.h"
#include "lockstep/tensor/alignment.h"
#include "lockstep/tensor/storage.h"

namespace lockstep::kvstore {

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

// One parameter that learns, and its place in flat buffers.
struct FlatParameter {
  std::size_t number = 0;  // in the list of whoever made the layout
  std::size_t count = 0;
  double rate_multiplier = 1.0, decay_multiplier = 1.0;
  std::size_t offset = 0;
  std::optional<std::size_t> whole = {};  // it is a slice: the number of the first one of its whole
};

// Elements of a parameter: what one thread updates at a time.
struct FlatPiece {
  std::size_t parameter;
  optim::PieceRange range;
  std::size_t offset;  // in flat buffers
  std::size_t size() const { return range.size(); }
};

// A parameter that learns by rows (kvstore/row_tables.h): it has no place in flat buffers.
struct RowTable {
  std::size_t number = 0;  // as a FlatParameter's
  std::size_t rows = 0, width = 0;
  std::optional<std::int64_t> padding_row = {};  // the one that has no gradient
  double rate_multiplier = 1.0, decay_multiplier = 1.0;
};

// How flat buffers are divided. Parameters stand in the order in which their gradients are made.
struct FlatLayout {
  std::vector<FlatParameter> parameters = {};
  std::vector<FlatPiece> pieces = {};
  std::size_t floats = 0;
  // Places that belong to no parameter, in order: needed where sums may say something there.
  std::vector<std::size_t> unused = {};
  std::vector<RowTable> tables = {};  // besides

  void add(FlatParameter parameter);
  // The pieces that begin in [offset, offset + count).
  std::span<const FlatPiece> pieces_in(std::size_t offset, std::size_t count) const;
};

}  // namespace lockstep::kvstore
