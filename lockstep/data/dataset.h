// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/tensor/tensor.h"

namespace lockstep::data {

// One sample, or one batch: its fields, an input and a label unless somebody says otherwise.
using Fields = std::vector<Tensor>;
std::vector<TensorInfo> infos_of(const Fields& fields);

// Samples by number. Every call is const and may come from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // Throws Corrupt or IoError and names the file when a sample cannot be had.
  virtual Fields sample(std::int64_t index) const = 0;
  // The samples stacked along a new first axis. Sets that are in memory gather straight.
  virtual Fields batch(std::span<const std::int64_t> indices) const;
  // The classes' names, where the set has them.
  virtual std::vector<std::string> class_names() const { return {}; }
};

using DatasetPtr = std::shared_ptr<const Dataset>;

// Arrays with a common first axis.
class ArrayDataset final : public Dataset {
 public:
  explicit ArrayDataset(Fields arrays, std::vector<std::string> class_names = {});
  std::int64_t size() const override;
  Fields sample(std::int64_t index) const override;
  Fields batch(std::span<const std::int64_t> indices) const override;
  std::vector<std::string> class_names() const override { return class_names_; }
  const Fields& arrays() const { return arrays_; }

 private:
  Fields arrays_;
  std::vector<std::string> class_names_;
};

}  // namespace lockstep::data
