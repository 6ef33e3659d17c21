// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/image_folder.h"

#include <fmt/ranges.h>

#include <cctype>

#include "lockstep/data/detail/class_folders.h"

namespace lockstep::data {
namespace {

bool has_image_name(const std::string& path) {
  std::string end = path.substr(path.rfind('.') + 1);
  for (char& c : end) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return end == "jpg" || end == "jpeg" || end == "png";
}

}  // namespace

ImageFolder::ImageFolder(const std::string& folder, const ImageFolderOptions& options)
    : image_(options.image) {
  for (const detail::ClassFolder& entry : detail::list_class_folders(folder))
    take_class(entry, options.skip_bad);
  if (options.skip_bad) leave_out_bad(options.progress);
  const char* which = skipped_.empty() ? "" : " that can be decoded";
  if (files_.empty())
    throw NotFound("{}: its {} folders have no .jpg, .jpeg or .png file{}", folder,
                   class_names_.size(), which);
  find_empty_classes();
  if (!options.allow_empty && !empty_classes_.empty())
    throw NotFound("{}: {} no .jpg, .jpeg or .png file{}: {}", folder,
                   empty_classes_.size() == 1 ? "a class has" : "classes have", which,
                   fmt::join(empty_classes_, ", "));
}

void ImageFolder::take_class(const detail::ClassFolder& folder, bool skip_bad) {
  for (const std::string& file : folder.files)
    if (has_image_name(file))
      files_.push_back({file, static_cast<std::int64_t>(class_names_.size())});
  for (const std::string& link : folder.broken_links) {
    if (!has_image_name(link)) continue;
    if (!skip_bad) throw detail::broken_link(link);
    skipped_.emplace_back(detail::broken_link(link).what());
  }
  class_names_.push_back(folder.name);
}

void ImageFolder::find_empty_classes() {
  std::vector<bool> has_image(class_names_.size());
  for (const File& file : files_) has_image[static_cast<std::size_t>(file.label)] = true;
  for (std::size_t i = 0; i < has_image.size(); ++i)
    if (!has_image[i]) empty_classes_.push_back(class_names_[i]);
}

void ImageFolder::leave_out_bad(const Progress& progress) {
  const std::int64_t total = size();
  std::int64_t done = 0;
  std::vector<File> good;
  for (File& file : files_) {
    try {
      read_image(file.path, image_);
      good.push_back(std::move(file));
    } catch (const Corrupt& error) {
      skipped_.emplace_back(error.what());
    }
    if (progress) progress(++done, total, "checking images");
  }
  files_ = std::move(good);
}

const std::string& ImageFolder::path(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw InvalidArgument("dataset: sample {} of {} samples", index, size());
  return files_[static_cast<std::size_t>(index)].path;
}

Fields ImageFolder::sample(std::int64_t index) const {
  const Tensor image = read_image(path(index), image_);
  const std::int64_t label = files_[static_cast<std::size_t>(index)].label;
  return {image, Tensor::from(std::vector<std::int64_t>{label}, {})};
}

}  // namespace lockstep::data
