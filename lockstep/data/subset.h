// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

// Some samples of a set, in the order of the indices; one may occur twice.
class Subset final : public Dataset {
 public:
  // Throws InvalidArgument when an index is none of the set's.
  Subset(DatasetPtr dataset, std::vector<std::int64_t> indices);
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Fields sample(std::int64_t index) const override;
  Fields batch(std::span<const std::int64_t> indices) const override;
  std::vector<std::string> class_names() const override { return dataset_->class_names(); }
  const std::vector<std::int64_t>& indices() const { return indices_; }

 private:
  std::int64_t place(std::int64_t index) const;
  DatasetPtr dataset_;
  std::vector<std::int64_t> indices_;
};

// The samples from `first` to `end`.
DatasetPtr slice(const DatasetPtr& dataset, std::int64_t first, std::int64_t end);

// Parts that share no sample, drawn by the seed alone: the same on every machine. Throws
// InvalidArgument when the sizes do not add up to the set's.
std::vector<DatasetPtr> random_split(const DatasetPtr& dataset,
                                     const std::vector<std::int64_t>& sizes, std::uint64_t seed);
// By parts of 1: 0.8 and 0.2. Sizes are rounded down; what is left goes to the first parts, one
// sample each. Throws InvalidArgument when the parts do not add up to 1.
std::vector<DatasetPtr> random_parts(const DatasetPtr& dataset, const std::vector<double>& parts,
                                     std::uint64_t seed);

// One set after the other. Throws InvalidArgument when their samples have another number of fields
// or their classes other names.
class ConcatDataset final : public Dataset {
 public:
  explicit ConcatDataset(std::vector<DatasetPtr> datasets);
  std::int64_t size() const override { return ends_.back(); }
  Fields sample(std::int64_t index) const override;
  std::vector<std::string> class_names() const override { return datasets_[0]->class_names(); }

 private:
  std::vector<DatasetPtr> datasets_;
  std::vector<std::int64_t> ends_;
};

}  // namespace lockstep::data
