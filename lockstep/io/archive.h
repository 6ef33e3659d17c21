// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::io {

using NamedTensor = std::pair<std::string, Tensor>;

// Named tensors and a text (JSON) about them: models and checkpoints on disk.
struct Archive {
  std::string metadata = "{}";
  std::vector<NamedTensor> tensors;
};

// All or nothing: temporary name, fsync, rename. Carries a SHA-256 of everything. Throws IoError;
// then what was there before is untouched.
void write_archive(const std::string& path, const Archive& archive);
// Throws NotFound, IoError, or Corrupt naming the file and what is wrong with it.
Archive read_archive(const std::string& path);

// Of the contents alone: names sorted, plain layout, little-endian.
std::string tensors_sha256(std::vector<NamedTensor> tensors);

}  // namespace lockstep::io
