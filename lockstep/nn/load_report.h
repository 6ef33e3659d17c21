// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/tensor/shape.h"

namespace lockstep::nn {

enum class LoadStatus { mismatched, missing, unexpected, loaded };

// What became of each name when parameters met a file.
struct LoadReport {
  struct Row {
    std::string name;
    LoadStatus status;
    std::optional<Shape> block = {}, file = {};  // its shape here and there
  };
  // What does not fit first; within that, the block's order, then the file's.
  std::vector<Row> rows;

  std::vector<std::string> names(LoadStatus status) const;
  // "60 of the block's 62 parameters fit; 2 have another shape"
  std::string summary() const;
  // A table: parameter, shape in the block, shape in the file, status. At most `most` rows of a
  // status, and how many more there are.
  std::string str(std::size_t most = 1000) const;
};

}  // namespace lockstep::nn
