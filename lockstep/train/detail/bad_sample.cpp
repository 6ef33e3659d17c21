// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/bad_sample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <regex>

#include "lockstep/ops/elementwise.h"

namespace lockstep::train::detail {
namespace {

std::int64_t rows_of(const data::Fields& batch) {
  return batch.empty() || batch[0].rank() == 0 ? 0 : batch[0].shape(0);
}

// The place among all elements; -1 where all are finite.
std::int64_t first_non_finite(const std::vector<float>& values) {
  const auto found =
      std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
  return found == values.end() ? -1 : found - values.begin();
}

std::optional<BadSample> find_in_field(const Tensor& field, const std::string& name) {
  if (!is_floating(field.dtype()) || field.numel() == 0 || field.rank() == 0) return {};
  const std::vector<float> values =
      cast(field.to(cpu()).contiguous(), DType::float32).to_vector<float>();
  const std::int64_t place = first_non_finite(values);
  if (place < 0) return {};
  const char* what = std::isnan(values[static_cast<std::size_t>(place)]) ? "a nan" : "an infinity";
  return BadSample{.row = place / (field.numel() / field.shape(0)),
                   .reason = fmt::format("{} in field {}", what, name)};
}

Tensor repeated(const Tensor& field, std::int64_t row) {
  const Tensor dense = field.contiguous();
  const Tensor result = Tensor::empty(field.shape(), field.dtype());
  const std::size_t bytes = dense.info().bytes() / static_cast<std::size_t>(field.shape(0));
  for (std::int64_t i = 0; i < field.shape(0) && bytes > 0; ++i)
    std::memcpy(result.raw() + static_cast<std::size_t>(i) * bytes,
                dense.raw() + static_cast<std::size_t>(row) * bytes, bytes);
  return result;
}

// Rows are those of the batch that was tried, which say nothing: the sample is named.
std::string without_row(const std::string& message) {
  static const std::regex row(" of row [0-9]+");
  return std::regex_replace(message, row, "");
}

}  // namespace

std::optional<BadSample> find_non_finite(const std::vector<data::Fields>& shards,
                                         const FieldRoles& roles) {
  for (std::size_t s = 0; s < shards.size(); ++s)
    for (std::size_t f = 0; f < roles.size(); ++f) {
      if (roles[f].role == FieldRole::unused) continue;
      auto bad = find_in_field(shards[s][f], roles[f].name);
      if (!bad) continue;
      bad->shard = static_cast<std::int64_t>(s);
      return bad;
    }
  return {};
}

std::optional<BadSample> find_refused_row(const data::Fields& batch,
                                          const std::function<void(const data::Fields&)>& run) {
  for (std::int64_t row = 0; row < rows_of(batch); ++row) {
    data::Fields alike;
    for (const Tensor& field : batch) alike.push_back(repeated(field, row));
    try {
      run(alike);
    } catch (const InvalidArgument& error) {
      return BadSample{.row = row, .reason = without_row(error.what())};
    }
  }
  return {};
}

}  // namespace lockstep::train::detail
