// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/base/gzip.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/text_folder.h"

namespace lockstep::data {

// The named sets, from a folder with their usual files: what get() returns, or one's own. Throws
// NotFound that says which file is not there, or Corrupt.

// train-images-idx3-ubyte and its like, with or without .gz: uint8 [N, 28, 28, 1], int64 [N].
// Gzip inflates to no more than `max_inflated` bytes.
DatasetPtr mnist(const std::string& folder, bool train, std::int64_t max_inflated = kMaxInflated);
DatasetPtr fashion_mnist(const std::string& folder, bool train,
                         std::int64_t max_inflated = kMaxInflated);
// data_batch_1.bin to data_batch_5.bin, test_batch.bin: uint8 [N, 32, 32, 3], int64 [N].
DatasetPtr cifar10(const std::string& folder, bool train);
// ham/ and spam/, classes 0 and 1. Every fifth mail, by name, is a test sample.
TextSet spam_assassin(const std::string& folder, bool train);
// moby-dick.txt: UTF-8.
std::string moby_dick(const std::string& folder);

}  // namespace lockstep::data
