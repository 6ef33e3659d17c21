// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/npz.h"

#include <algorithm>
#include <map>

#include "lockstep/base/memory_error.h"
#include "lockstep/io/detail/names.h"
#include "lockstep/io/detail/npy_bytes.h"
#include "lockstep/io/detail/npz_arrays.h"
#include "lockstep/io/detail/sparse.h"
#include "lockstep/io/detail/zip.h"

namespace lockstep::io {
namespace {

using detail::InputFile;

constexpr std::string_view kSuffix = ".npy";
constexpr const char* kParts[] = {"data", "indices", "shape"};
constexpr std::size_t kLongestName = 0xffff - kSuffix.size();

// Pickled tensors are no data to be read: unpickling runs what is written there.
void check_name(const InputFile& file, const std::string& name) {
  if (name.ends_with("/data.pkl"))
    file.fail("is a file of torch.save: write safetensors instead (safetensors.torch.save_file)");
  if (!name.ends_with(kSuffix)) file.fail("has the entry '{}', expected .npy arrays alone", name);
}

std::string without_suffix(const std::string& name) {
  return name.substr(0, name.size() - kSuffix.size());
}

struct Part {
  std::string folder, part;
};
Part part_of(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string::npos) return {};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

// Sparse arrays are folders; one where a part is missing holds arrays of its own.
bool is_sparse(const std::map<std::string, const detail::ZipEntry*>& entries,
               const std::string& folder) {
  return std::all_of(std::begin(kParts), std::end(kParts),
                     [&](const char* part) { return entries.count(folder + "/" + part) > 0; });
}

class ArrayReader {
 public:
  ArrayReader(const InputFile& file, const ReadOptions& options)
      : file_(file), zip_(file, static_cast<std::uint64_t>(options.max_inflated)) {
    for (const detail::ZipEntry& entry : zip_.entries()) {
      check_name(file, entry.name);
      entries_.emplace(without_suffix(entry.name), &entry);
    }
  }

  detail::NpzArrays all() {
    detail::NpzArrays result;
    for (const detail::ZipEntry& entry : zip_.entries()) {
      const std::string name = without_suffix(entry.name);
      const auto [folder, part] = part_of(name);
      if (folder.empty() || !is_sparse(entries_, folder))
        result.arrays.emplace_back(name, stored(array(entry)));
      else if (part == "data")
        result.arrays.emplace_back(folder, sparse(folder));
      else if (!is_known(part))
        file_.fail("has the entry '{}', which is no part of a sparse array", entry.name);
    }
    result.inflatable = std::max(zip_.inflated_left(), file_.size());
    return result;
  }

 private:
  // What is in `format` is told by the parts that there are; MXNet's own header of it is malformed.
  static bool is_known(const std::string& part) {
    return part == "indices" || part == "indptr" || part == "shape" || part == "format";
  }

  Tensor array(const detail::ZipEntry& entry) {
    return detail::npy_from_bytes(zip_.contents(entry),
                                  fmt::format("{}: entry '{}'", file_.path(), entry.name));
  }

  StoredArray sparse(const std::string& folder) {
    const auto part = [&](const char* name) { return array(*entries_.at(folder + "/" + name)); };
    const detail::Place place{file_.path(), fmt::format("tensor '{}'", folder)};
    const Tensor shape = part("shape");
    if (!is_integral(shape.dtype()) || shape.rank() != 1)
      place.fail("has a shape of {}, expected whole numbers in a row", shape.info().str());
    const bool is_csr = entries_.count(folder + "/indptr") > 0;
    StoredArray made{is_csr ? Storage::csr : Storage::row_sparse,
                     shape_from(place, shape.to_vector<std::int64_t>()),
                     part("data"),
                     {}};
    if (is_csr) made.indices.push_back(part("indptr"));
    made.indices.push_back(part("indices"));
    check_sparse(place, made);
    return made;
  }

  const InputFile& file_;
  detail::ZipReader zip_;
  std::map<std::string, const detail::ZipEntry*> entries_;
};

std::vector<NamedTensor> read_all(const InputFile& file, const ReadOptions& options) {
  detail::NpzArrays read = detail::npz_arrays(file, options);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, array] : read.arrays)
    tensors.emplace_back(name, detail::dense_of({file.path(), fmt::format("tensor '{}'", name)},
                                                array, read.inflatable));
  return tensors;
}

}  // namespace

namespace detail {

NpzArrays npz_arrays(const InputFile& file, const ReadOptions& options) {
  return ArrayReader(file, options).all();
}

}  // namespace detail

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
