// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/io/tensor_file.h"
#include "lockstep/nn/foreign_names.h"
#include "lockstep/nn/set_parameters.h"

namespace lockstep::nn {
namespace {

constexpr std::size_t kRowsOfAnError = 12;  // of each status

using Contents = std::map<std::string, Tensor>;

LoadReport compare(const std::vector<NamedParameter>& parameters, const Contents& contents) {
  LoadReport report;
  Contents left = contents;
  for (const auto& [name, parameter] : parameters) {
    const auto found = contents.find(name);
    if (found == contents.end()) {
      report.rows.push_back({name, LoadStatus::missing, parameter.shape(), {}});
      continue;
    }
    const Shape& shape = found->second.shape();
    report.rows.push_back({name,
                           parameter.takes(shape) ? LoadStatus::loaded : LoadStatus::mismatched,
                           parameter.shape(), shape});
    left.erase(name);
  }
  for (const auto& [name, tensor] : left)
    report.rows.push_back({name, LoadStatus::unexpected, {}, tensor.shape()});
  std::stable_sort(
      report.rows.begin(), report.rows.end(),
      [](const LoadReport::Row& a, const LoadReport::Row& b) { return a.status < b.status; });
  return report;
}

bool is_allowed(LoadStatus status, const LoadOptions& options) {
  switch (status) {
    case LoadStatus::mismatched: return options.skip_mismatched;
    case LoadStatus::missing: return options.skip_mismatched || options.allow_missing;
    case LoadStatus::unexpected: return options.skip_mismatched || options.ignore_extra;
    case LoadStatus::loaded: return true;
  }
  return true;
}

// Everything that is wrong at once, before anything is changed.
void check(const std::string& path, const LoadReport& report, const LoadOptions& options) {
  const auto& rows = report.rows;
  if (options.skip_mismatched && report.names(LoadStatus::loaded).empty())
    throw InvalidArgument("{}: nothing in it fits the block\n{}", path, report.str(kRowsOfAnError));
  if (std::all_of(rows.begin(), rows.end(),
                  [&](const LoadReport::Row& row) { return is_allowed(row.status, options); }))
    return;
  throw InvalidArgument("{}: {} (skip_mismatched takes what fits)\n{}", path, report.summary(),
                        report.str(kRowsOfAnError));
}

// As the ending says, where nobody else has it: .params, which MXNet has too, is ours here.
io::FileFormat format_to_save(const std::string& path) {
  const std::optional<io::FileFormat> format = io::format_of_ending(path);
  const bool is_other = format == io::FileFormat::safetensors || format == io::FileFormat::npz;
  return is_other ? *format : io::FileFormat::native;
}

}  // namespace

void Block::save(const std::string& path) const {
  std::vector<io::NamedTensor> tensors;
  for (const NamedParameter& named : parameters())
    tensors.emplace_back(named.name, named.parameter.data());
  io::save_tensors(path, tensors, format_to_save(path));
}

LoadReport Block::load(const std::string& path, const LoadOptions& options) {
  return set_parameters(*this, with_own_names(parameters(), io::load_tensors(path)), path, options);
}

LoadReport set_parameters(const Block& block,
                          const std::vector<std::pair<std::string, Tensor>>& tensors,
                          const std::string& place, const LoadOptions& options) {
  const Contents contents(tensors.begin(), tensors.end());
  const std::vector<NamedParameter> all = block.parameters();
  LoadReport report = compare(all, contents);
  check(place, report, options);
  for (const auto& [name, parameter] : all) {
    const auto found = contents.find(name);
    if (found == contents.end() || !parameter.takes(found->second.shape())) continue;
    parameter.set_name(name);
    parameter.set_data(found->second);
  }
  return report;
}

}  // namespace lockstep::nn
