// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/data/codec.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/progress.h"

namespace lockstep::data {
namespace detail {
struct ClassFolder;
}

struct ImageFolderOptions {
  ImageOptions image = {};
  // Decode every image on opening and leave out those that cannot be: the samples' numbers then
  // depend on the files alone. Else a bad image is Corrupt when its sample is asked for.
  bool skip_bad = false;
  bool allow_empty = false;  // classes without an image; else they are NotFound
  Progress progress = {};    // of that, in files
};

// A folder with a folder of .jpg, .jpeg and .png files for each class. Images are decoded when they
// are asked for: uint8 [H, W, C], and an int64 label. Classes and files are taken by name.
class ImageFolder final : public Dataset {
 public:
  // Throws NotFound when there is no folder, no class, a class without an image, or a link to a
  // file that is not there (which skip_bad leaves out).
  explicit ImageFolder(const std::string& folder, const ImageFolderOptions& options = {});
  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  Fields sample(std::int64_t index) const override;
  std::vector<std::string> class_names() const override { return class_names_; }
  const std::string& path(std::int64_t index) const;
  // What skip_bad left out: one line for each, which begins with the path.
  const std::vector<std::string>& skipped() const { return skipped_; }
  const std::vector<std::string>& empty_classes() const { return empty_classes_; }

 private:
  struct File {
    std::string path;
    std::int64_t label;
  };
  void take_class(const detail::ClassFolder& folder, bool skip_bad);
  void leave_out_bad(const Progress& progress);
  void find_empty_classes();

  ImageOptions image_;
  std::vector<File> files_;
  std::vector<std::string> class_names_;
  std::vector<std::string> skipped_, empty_classes_;
};

}  // namespace lockstep::data
