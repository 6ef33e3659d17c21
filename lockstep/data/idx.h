// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/gzip.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {

// An array of the idx format: MNIST's files and those of the sets made in its image. 16-bit
// integers, which tensors do not have, become int32. Throws Corrupt that begins with `name`.
Tensor parse_idx(std::string_view bytes, const std::string& name);
// From a file, plain or gzip, whatever its name says. Gzip inflates to what the header says, and to
// no more than `max_inflated` bytes. Throws NotFound or IoError too.
Tensor read_idx(const std::string& path, std::int64_t max_inflated = kMaxInflated);

struct IdxOptions {
  std::int64_t classes = 0;  // labels are in [0, classes); 0: not checked
  std::vector<std::string> class_names = {};
  std::int64_t max_inflated = kMaxInflated;  // bytes of a gzip file's contents
};

// Images as uint8 [N, H, W, 1] and labels as int64 [N].
DatasetPtr read_idx_images(const std::string& images, const std::string& labels,
                           const IdxOptions& options = {});

}  // namespace lockstep::data
