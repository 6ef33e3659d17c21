// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "lockstep/base/error.h"
#include "lockstep/io/archive.h"
#include "lockstep/nn/set_parameters.h"

namespace lockstep::nn {
namespace {

constexpr const char* kMetadata = R"({"format":"lockstep-parameters"})";

using Contents = std::map<std::string, Tensor>;

void append(std::string& list, const std::string& item) {
  list += (list.empty() ? "" : ", ") + item;
}

// Everything that is wrong, in one line, before anything is changed.
void check(const std::string& path, const std::vector<NamedParameter>& parameters,
           const Contents& contents, const LoadOptions& options) {
  std::string missing, extra;
  Contents left = contents;
  for (const auto& [name, parameter] : parameters) {
    const auto found = contents.find(name);
    left.erase(name);
    if (found == contents.end())
      append(missing, name);
    else if (!parameter.takes(found->second.shape()))
      throw InvalidArgument("{}: {} has shape {}, expected {}", path, name,
                            found->second.shape().str(), parameter.shape().str());
  }
  for (const auto& [name, tensor] : left) append(extra, name);
  if (!missing.empty() && !options.allow_missing)
    throw InvalidArgument("{}: has no {}", path, missing);
  if (!extra.empty() && !options.ignore_extra)
    throw InvalidArgument("{}: has {}, which the block has not", path, extra);
}

}  // namespace

void Block::save(const std::string& path) const {
  io::Archive archive{.metadata = kMetadata, .tensors = {}};
  for (const NamedParameter& named : parameters())
    archive.tensors.emplace_back(named.name, named.parameter.data());
  io::write_archive(path, archive);
}

void Block::load(const std::string& path, const LoadOptions& options) {
  set_parameters(*this, io::read_archive(path).tensors, path, options);
}

void set_parameters(const Block& block, const std::vector<std::pair<std::string, Tensor>>& tensors,
                    const std::string& place, const LoadOptions& options) {
  const Contents contents(tensors.begin(), tensors.end());
  const std::vector<NamedParameter> all = block.parameters();
  check(place, all, contents, options);
  for (const auto& [name, parameter] : all) {
    const auto found = contents.find(name);
    if (found == contents.end()) continue;
    parameter.set_name(name);
    parameter.set_data(found->second);
  }
}

}  // namespace lockstep::nn
