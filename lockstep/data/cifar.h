// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

// One binary batch of CIFAR-10: records of a label and 32 x 32 pixels, the red plane first.
struct CifarBatch {
  Tensor images;  // uint8 [N, 32, 32, 3]
  Tensor labels;  // int64 [N]
};

// Any number of records. Throws Corrupt that begins with `name`.
CifarBatch parse_cifar(std::string_view bytes, const std::string& name);
// The record file of a batch: what parse_cifar reads.
std::string format_cifar(const CifarBatch& batch);

// The batches of `paths`, each of exactly `records` images (0: any number), one after another.
DatasetPtr read_cifar(const std::vector<std::string>& paths, std::int64_t records = 10000);

const std::vector<std::string>& cifar10_class_names();

}  // namespace lockstep::data
