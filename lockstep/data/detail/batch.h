// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/transform.h"

namespace lockstep::data::detail {

// Throws InvalidArgument that names the sample when it lacks a field.
void check_defined(const Fields& sample, std::int64_t index);
// Room for so many samples like this one: each field with an axis of samples in front.
Fields empty_batch(const Fields& sample, std::size_t count);
// Sample `index` of the data set becomes row `place`. Throws InvalidArgument when it is not like
// the first.
void put_sample(const Fields& sample, std::int64_t index, const Fields& batch, std::size_t place);

// Makes one batch of a data set's samples.
struct BatchMaker {
  const Dataset& dataset;
  const Transform& transform;
  bool skip_bad = false;
  // Asked between samples: true gives the batch up, which is then empty.
  std::function<bool()> given_up = {};

  // What was skipped is added to `messages`.
  Fields make(std::span<const std::int64_t> indices, const RandomKey& key,
              std::vector<std::string>& messages) const;

 private:
  Fields whole(std::span<const std::int64_t> indices) const;
  Fields one_by_one(std::span<const std::int64_t> indices, const RandomKey& key,
                    std::vector<std::string>& messages) const;
  Fields changed(std::int64_t index, const RandomKey& key) const;
  Fields good(std::int64_t index, const RandomKey& key, std::vector<std::string>& messages) const;
};

}  // namespace lockstep::data::detail
