// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/parameter_file.h"

#include <filesystem>

#include "lockstep/observe/run_folder.h"
#include "lockstep/train/checkpoint.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

std::vector<io::NamedTensor> newest_parameters(
    const std::string& folder, const std::function<void(const std::string&)>& warn) {
  const bool has_checkpoints = !list_checkpoints(folder).empty();
  const std::string place =
      has_checkpoints ? folder : observe::RunFolder::open(folder).checkpoints_path();
  std::optional<Checkpoint> checkpoint = CheckpointStore(place, {.warn = warn}).load_newest();
  if (!checkpoint) throw NotFound("{}: has no checkpoint yet", folder);
  return std::move(checkpoint->parameters);
}

// Of one whose metadata says so: beside parameters it has the optimiser's state.
bool is_checkpoint(const io::Archive& archive) {
  return archive.metadata.find("\"params_sha256\"") != std::string::npos;
}

}  // namespace

std::vector<io::NamedTensor> load_parameters(const std::string& place,
                                             std::optional<io::FileFormat> format,
                                             const io::ReadOptions& options,
                                             const std::function<void(const std::string&)>& warn) {
  std::error_code ignored;
  if (fs::is_directory(place, ignored)) return newest_parameters(place, warn);
  if (!format) format = io::format_of_file(place);
  if (*format != io::FileFormat::native) return io::load_tensors(place, format, options);
  io::Archive archive = io::read_archive(place);
  return is_checkpoint(archive) ? read_checkpoint(place).parameters : std::move(archive.tensors);
}

}  // namespace lockstep::train
