// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/tensor_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "lockstep/io/archive.h"
#include "lockstep/io/detail/input_file.h"
#include "lockstep/io/mxnet_params.h"
#include "lockstep/io/npz.h"
#include "lockstep/io/safetensors.h"

namespace lockstep::io {
namespace {

using namespace std::string_view_literals;

struct Facts {
  FileFormat format;
  std::string_view name, ending;
};
constexpr std::array<Facts, 4> kFormats{{{FileFormat::native, "native", ".lockstep"},
                                         {FileFormat::params, "params", ".params"},
                                         {FileFormat::safetensors, "safetensors", ".safetensors"},
                                         {FileFormat::npz, "npz", ".npz"}}};

constexpr const char* kMetadata = R"({"format":"lockstep-parameters"})";

// The header's length, then the header.
bool begins_as_safetensors(std::string_view bytes) { return bytes.size() > 8 && bytes[8] == '{'; }

// What people have besides, and what to do with it.
std::string_view advice_for(std::string_view bytes) {
  if (bytes.starts_with("\x93NUMPY"sv)) return "; it is one array of NumPy's (numpy.load)";
  if (bytes.starts_with("\x80"sv))
    return "; it looks like a pickle (torch.save before 1.6): write safetensors instead";
  if (bytes.starts_with("\x89HDF"sv)) return "; it is HDF5";
  return "";
}

}  // namespace

std::string_view name_of(FileFormat format) {
  return kFormats[static_cast<std::size_t>(format)].name;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Facts& facts : kFormats) names.emplace_back(facts.name);
  return names;
}

FileFormat format_from_name(const std::string& name) {
  for (const Facts& facts : kFormats)
    if (facts.name == name) return facts.format;
  throw InvalidArgument("format: there is no '{}' (there are: {})", name,
                        fmt::join(format_names(), ", "));
}

FileFormat format_of_file(const std::string& path) {
  const detail::InputFile file(path);
  const std::string bytes = file.text_at(0, std::min<std::uint64_t>(file.size(), 16));
  if (bytes.starts_with("LOCKSTEP"sv)) return FileFormat::native;
  if (bytes.starts_with("\x12\x01\0\0\0\0\0\0"sv)) return FileFormat::params;
  if (bytes.starts_with("PK\3\4"sv) || bytes.starts_with("PK\5\6"sv)) return FileFormat::npz;
  if (begins_as_safetensors(bytes)) return FileFormat::safetensors;
  file.fail("is no file of tensors that can be read ({}){}", fmt::join(format_names(), ", "),
            advice_for(bytes));
}

std::optional<FileFormat> format_of_ending(const std::string& path) {
  for (const Facts& facts : kFormats)
    if (path.ends_with(facts.ending)) return facts.format;
  return {};
}

std::vector<NamedTensor> load_tensors(const std::string& path, std::optional<FileFormat> format,
                                      const ReadOptions& options) {
  switch (format ? *format : format_of_file(path)) {
    case FileFormat::native: return read_archive(path).tensors;
    case FileFormat::params: return read_mxnet_params(path, options);
    case FileFormat::safetensors: return read_safetensors(path).tensors;
    case FileFormat::npz: return read_npz(path, options);
  }
  fail_check("unknown file format");
}

void save_tensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                  std::optional<FileFormat> format) {
  if (!format) format = format_of_ending(path);
  if (!format)
    throw InvalidArgument(
        "{}: its ending does not say what to write: .lockstep, .params, .safetensors and .npz do, "
        "or a format by its name ({})",
        path, fmt::join(format_names(), ", "));
  switch (*format) {
    case FileFormat::native:
      return write_archive(path, {.metadata = kMetadata, .tensors = tensors});
    case FileFormat::params: return write_mxnet_params(path, tensors);
    case FileFormat::safetensors: return write_safetensors(path, {tensors});
    case FileFormat::npz: return write_npz(path, tensors);
  }
}

}  // namespace lockstep::io
