// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/detail/batch.h"

#include <cstring>

#include "lockstep/data/loader.h"

namespace lockstep::data {

namespace detail {

namespace {

bool fits(const Tensor& field, const Tensor& stack) {
  return field.dtype() == stack.dtype() && field.rank() + 1 == stack.rank() &&
         std::equal(field.shape().begin(), field.shape().end(), stack.shape().begin() + 1);
}

std::string infos(const Fields& fields, int skipped_axes) {
  std::string text;
  for (const Tensor& field : fields) {
    TensorInfo info = field.info();
    for (int i = 0; i < skipped_axes; ++i) info.shape.erase(0);
    text += (text.empty() ? "" : ", ") + info.str();
  }
  return text;
}

}  // namespace

void check_defined(const Fields& sample, std::int64_t index) {
  for (std::size_t i = 0; i < sample.size(); ++i)
    if (!sample[i].defined())
      throw InvalidArgument("batch: field {} of sample {} is undefined", i, index);
}

Fields empty_batch(const Fields& sample, std::size_t count) {
  Fields batch;
  for (const Tensor& field : sample) {
    Shape shape = field.shape();
    shape.insert(0, static_cast<std::int64_t>(count));
    batch.push_back(Tensor::empty(shape, field.dtype(), field.device()));
  }
  return batch;
}

void put_sample(const Fields& sample, std::int64_t index, const Fields& batch, std::size_t place) {
  check_defined(sample, index);
  bool same = sample.size() == batch.size();
  for (std::size_t i = 0; same && i < sample.size(); ++i) same = fits(sample[i], batch[i]);
  if (!same)
    throw InvalidArgument("batch: sample {} is {}, the batch's first is {}", index,
                          infos(sample, 0), infos(batch, 1));
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const std::size_t bytes = sample[i].info().bytes();
    if (bytes > 0) std::memcpy(batch[i].raw() + place * bytes, sample[i].contiguous().raw(), bytes);
  }
}

Fields BatchMaker::whole(std::span<const std::int64_t> indices) const {
  Fields batch = dataset.batch(indices);
  if (transform.apply_batch && !batch.empty()) batch.front() = transform.apply_batch(batch.front());
  return batch;
}

Fields BatchMaker::changed(std::int64_t index, const RandomKey& key) const {
  Fields sample = dataset.sample(index);
  if (transform.apply_fields) return transform.apply_fields(std::move(sample), key, index);
  if (transform.apply && !sample.empty()) sample.front() = transform.apply(sample.front(), key);
  return sample;
}

Fields BatchMaker::good(std::int64_t index, const RandomKey& key,
                        std::vector<std::string>& messages) const {
  if (!skip_bad) return changed(index, key);
  for (std::int64_t tried = 0; tried < dataset.size(); ++tried) {
    try {
      return changed(tried == 0 ? index : (index + tried) % dataset.size(), key);
    } catch (const Corrupt& error) {
      messages.emplace_back(error.what());
    }
    if (given_up && given_up()) return {};
  }
  throw Corrupt("loader: none of {} samples is good; the last one: {}", dataset.size(),
                messages.back());
}

Fields BatchMaker::one_by_one(std::span<const std::int64_t> indices, const RandomKey& key,
                              std::vector<std::string>& messages) const {
  Fields batch;
  for (std::size_t place = 0; place < indices.size(); ++place) {
    RandomKey own = key;
    own.use += static_cast<std::uint32_t>(place) * transform.uses;
    const Fields sample = good(indices[place], own, messages);
    if (given_up && given_up()) return {};
    if (place == 0) check_defined(sample, indices[0]);
    if (place == 0) batch = empty_batch(sample, indices.size());
    put_sample(sample, indices[place], batch, place);
  }
  return batch;
}

Fields BatchMaker::make(std::span<const std::int64_t> indices, const RandomKey& key,
                        std::vector<std::string>& messages) const {
  const bool sample_by_sample =
      transform.apply_fields || (transform.apply && !transform.apply_batch);
  if (sample_by_sample) return one_by_one(indices, key, messages);
  try {
    return whole(indices);
  } catch (const Corrupt&) {
    if (!skip_bad) throw;
  }
  return one_by_one(indices, key, messages);
}

}  // namespace detail

Fields load_batch(const Dataset& dataset, std::span<const std::int64_t> indices,
                  const Transform& transform, const RandomKey& key) {
  std::vector<std::string> messages;
  return detail::BatchMaker{dataset, transform}.make(indices, key, messages);
}

}  // namespace lockstep::data
