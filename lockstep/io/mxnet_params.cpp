// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/mxnet_params.h"

#include <algorithm>

#include "lockstep/base/memory_error.h"
#include "lockstep/io/detail/input_file.h"
#include "lockstep/io/detail/sparse.h"
#include "lockstep/io/mxnet_arrays.h"

namespace lockstep::io {
namespace {

std::vector<NamedTensor> dense(const std::string& path, const MxnetArrays& list,
                               std::uint64_t left) {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < list.arrays.size(); ++i) {
    const std::string number = std::to_string(i);
    tensors.emplace_back(list.names.empty() ? number : list.names[i],
                         detail::dense_of({path, "tensor " + number}, list.arrays[i], left));
  }
  return tensors;
}

}  // namespace

std::vector<NamedTensor> read_mxnet_params(const std::string& path, const ReadOptions& options) {
  const MxnetArrays list = read_mxnet_list(path);
  return with_memory_for(path, [&] {
    const std::uint64_t size = detail::InputFile(path).size();
    return dense(path, list, std::max(static_cast<std::uint64_t>(options.max_inflated), size));
  });
}

void write_mxnet_params(const std::string& path, const std::vector<NamedTensor>& tensors) {
  MxnetArrays list;
  for (const auto& [name, tensor] : tensors) {
    list.names.push_back(name);
    list.arrays.push_back(stored(tensor));
  }
  write_mxnet_arrays(path, list);
}

}  // namespace lockstep::io
