// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/npz.h"

#include "lockstep/base/memory_error.h"
#include "lockstep/io/detail/names.h"
#include "lockstep/io/detail/npy_bytes.h"
#include "lockstep/io/detail/stored_tensor.h"
#include "lockstep/io/detail/zip.h"

namespace lockstep::io {
namespace {

using detail::InputFile;

constexpr std::string_view kSuffix = ".npy";
constexpr std::size_t kLongestName = 0xffff - kSuffix.size();

// Pickled tensors are no data to be read: unpickling runs what is written there.
void check_name(const InputFile& file, const std::string& name) {
  if (name.ends_with("/data.pkl"))
    file.fail("is a file of torch.save: write safetensors instead (safetensors.torch.save_file)");
  if (!name.ends_with(kSuffix)) file.fail("has the entry '{}', expected .npy arrays alone", name);
}

std::vector<NamedTensor> read_all(const InputFile& file, const ReadOptions& options) {
  detail::ZipReader zip(file, static_cast<std::uint64_t>(options.max_inflated));
  for (const detail::ZipEntry& entry : zip.entries()) check_name(file, entry.name);
  std::vector<NamedTensor> tensors;
  for (const detail::ZipEntry& entry : zip.entries()) {
    const std::string name = entry.name.substr(0, entry.name.size() - kSuffix.size());
    tensors.emplace_back(
        name, detail::npy_from_bytes(zip.contents(entry),
                                     fmt::format("{}: entry '{}'", file.path(), entry.name)));
  }
  return tensors;
}

}  // namespace

std::vector<NamedTensor> read_npz(const std::string& path, const ReadOptions& options) {
  const InputFile file(path);
  return with_memory_for(path, [&] { return read_all(file, options); });
}

void write_npz(const std::string& path, const std::vector<NamedTensor>& tensors) {
  detail::check_names_differ(path, tensors);
  for (const auto& [name, tensor] : tensors)
    if (name.size() > kLongestName)
      throw InvalidArgument("{}: a name of {} bytes does not fit into a .npz file", path,
                            name.size());
  detail::ZipWriter zip(path);
  for (const auto& [name, tensor] : tensors) {
    const Tensor dense = detail::to_write(tensor);
    zip.add(name + std::string(kSuffix), detail::npy_header(dense.info()), detail::bytes_of(dense));
  }
  zip.finish();
}

}  // namespace lockstep::io
