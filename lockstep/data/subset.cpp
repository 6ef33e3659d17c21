// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/subset.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/data/detail/order.h"

namespace lockstep::data {
namespace {

void check_dataset(const char* who, const DatasetPtr& dataset) {
  if (dataset == nullptr) throw InvalidArgument("{}: there is no data set", who);
}

// Sizes are of 0 or more; the parts are cut from one shuffled order.
std::vector<DatasetPtr> cut(const DatasetPtr& dataset, const std::vector<std::int64_t>& sizes,
                            std::uint64_t seed) {
  std::vector<std::int64_t> order = detail::counting(0, dataset->size());
  detail::shuffle(order, seed, 0);
  std::vector<DatasetPtr> parts;
  auto begin = order.begin();
  for (const std::int64_t size : sizes) {
    parts.push_back(
        std::make_shared<Subset>(dataset, std::vector<std::int64_t>(begin, begin + size)));
    begin += size;
  }
  return parts;
}

}  // namespace

Subset::Subset(DatasetPtr dataset, std::vector<std::int64_t> indices)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  check_dataset("subset", dataset_);
  for (const std::int64_t index : indices_)
    if (index < 0 || index >= dataset_->size())
      throw InvalidArgument("subset: sample {} of {} samples", index, dataset_->size());
}

std::int64_t Subset::place(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw InvalidArgument("subset: sample {} of {} samples", index, size());
  return indices_[static_cast<std::size_t>(index)];
}

Fields Subset::sample(std::int64_t index) const { return dataset_->sample(place(index)); }

Fields Subset::batch(std::span<const std::int64_t> indices) const {
  std::vector<std::int64_t> places;
  for (const std::int64_t index : indices) places.push_back(place(index));
  return dataset_->batch(places);
}

DatasetPtr slice(const DatasetPtr& dataset, std::int64_t first, std::int64_t end) {
  check_dataset("slice", dataset);
  if (first < 0 || end < first || end > dataset->size())
    throw InvalidArgument("slice: samples {} to {} of {} samples", first, end, dataset->size());
  return std::make_shared<Subset>(dataset, detail::counting(first, end));
}

std::vector<DatasetPtr> random_split(const DatasetPtr& dataset,
                                     const std::vector<std::int64_t>& sizes, std::uint64_t seed) {
  check_dataset("random_split", dataset);
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > dataset->size() - sum)
      throw InvalidArgument("random_split: a part of {} samples, {} of {} are left", size,
                            dataset->size() - sum, dataset->size());
    sum += size;
  }
  if (sum != dataset->size())
    throw InvalidArgument("random_split: the parts have {} samples, the set {}", sum,
                          dataset->size());
  return cut(dataset, sizes, seed);
}

std::vector<DatasetPtr> random_parts(const DatasetPtr& dataset, const std::vector<double>& parts,
                                     std::uint64_t seed) {
  check_dataset("random_parts", dataset);
  for (const double part : parts)
    if (!(part >= 0.0 && part <= 1.0))
      throw InvalidArgument("random_parts: a part is {}, expected 0 to 1", part);
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  if (!(std::abs(sum - 1.0) < 1e-6))
    throw InvalidArgument("random_parts: the parts add up to {}, expected 1", sum);
  std::vector<std::int64_t> sizes;
  std::int64_t left = dataset->size();
  for (const double part : parts) {
    // A product that is a whole number but for its rounding is that number.
    const double exact = part * static_cast<double>(dataset->size());
    const auto size = std::min(left, static_cast<std::int64_t>(std::floor(exact + 1e-6)));
    sizes.push_back(size);
    left -= size;
  }
  for (std::size_t i = 0; left > 0; i = (i + 1) % sizes.size(), --left) ++sizes[i];
  return cut(dataset, sizes, seed);
}

ConcatDataset::ConcatDataset(std::vector<DatasetPtr> datasets) : datasets_(std::move(datasets)) {
  if (datasets_.empty()) throw InvalidArgument("concat: no data sets, at least one is needed");
  std::int64_t end = 0;
  std::size_t fields = 0;
  for (std::size_t i = 0; i < datasets_.size(); ++i) {
    check_dataset("concat", datasets_[i]);
    if (datasets_[i]->class_names() != datasets_[0]->class_names())
      throw InvalidArgument("concat: set {} has other classes than set 0", i);
    if (datasets_[i]->size() > 0) {
      const std::size_t own = datasets_[i]->sample(0).size();
      if (fields != 0 && own != fields)
        throw InvalidArgument("concat: samples of set {} have {} fields, those before it {}", i,
                              own, fields);
      fields = own;
    }
    ends_.push_back(end += datasets_[i]->size());
  }
}

Fields ConcatDataset::sample(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw InvalidArgument("concat: sample {} of {} samples", index, size());
  const auto set =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  return datasets_[set]->sample(index - (set == 0 ? 0 : ends_[set - 1]));
}

}  // namespace lockstep::data
