// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/io/archive.h"
#include "lockstep/io/read_options.h"

namespace lockstep::io {

// Files of named tensors.
enum class FileFormat {
  native,       // io/archive.h, what Block::save writes
  params,       // io/mxnet_params.h
  safetensors,  // io/safetensors.h
  npz,          // io/npz.h
};

// "native", "params", "safetensors", "npz".
std::string_view name_of(FileFormat format);
std::vector<std::string> format_names();
// Throws InvalidArgument.
FileFormat format_from_name(const std::string& name);
// By the file's first bytes. Throws NotFound, IoError, or Corrupt when they are none of these.
FileFormat format_of_file(const std::string& path);
// By the ending: .lockstep, .params, .safetensors, .npz. Nothing for another.
std::optional<FileFormat> format_of_ending(const std::string& path);

// In the order of the file, with its own names. Without a format, by its first bytes.
std::vector<NamedTensor> load_tensors(const std::string& path,
                                      std::optional<FileFormat> format = {},
                                      const ReadOptions& options = {});
// All or nothing. Without a format, by the ending. Throws InvalidArgument when that says nothing or
// the names do not fit, NotFound and IoError.
void save_tensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                  std::optional<FileFormat> format = {});

}  // namespace lockstep::io
