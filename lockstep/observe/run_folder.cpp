// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/temporary_files.h"

namespace lockstep::observe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = "run.lock";
constexpr int kMostRuns = 1000000;

[[noreturn]] void refuse(const std::string& path, const char* what, int error) {
  throw IoError("run: '{}' {}: {}", path, what, std::strerror(error));
}

void make_parents(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  std::error_code error;
  if (!parent.empty()) fs::create_directories(parent, error);
  if (error) refuse(parent.string(), "cannot be created", error.value());
}

// False when something of that name is there.
bool make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) == 0) return true;
  if (errno != EEXIST) refuse(path, "cannot be created", errno);
  return false;
}

// Files that a run begins with, and their temporary names.
bool is_beginning(const std::string& name) {
  const std::string stem = lasting_name(name).value_or(name);
  return stem == kLockName || stem == "classes.json" || stem == "vocabulary.txt" ||
         stem == "ratings.table" || (stem == "config.json" && stem != name);
}

// Nothing in it but what a run leaves that ended before it began.
bool is_unused_folder(const std::string& path) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (!is_beginning(entry.path().filename().string())) return false;
  return !error;
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Held until the descriptor is closed, which the end of a process does too.
int take_lock(const std::string& path) {
  const std::string name = path + "/" + kLockName;
  const int descriptor = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) refuse(path, "cannot be written to", errno);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  const int error = errno;
  ::close(descriptor);
  if (error != EWOULDBLOCK) refuse(path, "cannot be locked", error);
  throw InvalidArgument("run: '{}' is being trained by another process; wait for it or stop it",
                        path);
}

// Those who only ask something of a run write too, and may be doing so.
bool is_of_training(const std::string& name) { return !name.starts_with("stop.request"); }

void expect_run(const std::string& path) {
  if (!is_folder(path))
    throw NotFound("run: there is no folder '{}'; without --resume a new run starts there", path);
  if (!fs::exists(path + "/config.json"))
    throw NotFound("run: '{}' has no config.json, so it is not a run to go on with", path);
}

std::string without_end_slash(std::string path) {
  if (path.empty()) throw InvalidArgument("run: the folder's name is empty");
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)), made_(other.made_) {}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

RunFolder RunFolder::create(const std::string& path) {
  const std::string name = without_end_slash(path);
  make_parents(name);
  const bool made = make_folder(name);
  if (!made && !is_unused_folder(name))
    throw InvalidArgument(
        "run: '{}' exists already; choose another --out, or --resume to go on with it", name);
  return {name, take_lock(name), made};
}

RunFolder RunFolder::create_next(const std::string& parent, const std::string& recipe) {
  const std::string stem = without_end_slash(parent) + "/" + recipe + "-";
  make_parents(stem);
  for (int number = 1; number <= kMostRuns; ++number) {
    const std::string path = stem + std::to_string(number);
    if (make_folder(path)) return {path, take_lock(path), true};
  }
  throw InvalidArgument("run: '{}1' to '{}{}' exist; choose an --out", stem, stem, kMostRuns);
}

RunFolder RunFolder::resume(const std::string& path) {
  const std::string name = without_end_slash(path);
  expect_run(name);
  const int lock = take_lock(name);
  remove_temporaries(name, is_of_training);
  return {name, lock};
}

RunFolder RunFolder::open(const std::string& path) {
  const std::string name = without_end_slash(path);
  if (!is_folder(name)) throw NotFound("run: there is no folder '{}'", name);
  if (!fs::exists(name + "/config.json"))
    throw NotFound("run: '{}' has no config.json, so it is not a run", name);
  return {name, -1};
}

void RunFolder::write_config(std::string_view json) const { write_file(config_path(), json); }

std::string RunFolder::read_config() const { return read_file(config_path()); }

void RunFolder::remove() const {
  std::error_code error;  // what cannot be removed stays
  for (const auto& entry : fs::directory_iterator(path_, error)) fs::remove_all(entry, error);
  if (made_) fs::remove(path_, error);
}

}  // namespace lockstep::observe
