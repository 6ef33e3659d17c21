// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/history_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>

#include "lockstep/base/file.h"
#include "lockstep/train/detail/fit_state.h"

namespace lockstep::train::detail {
namespace {

// What follows the first `kept` bytes, which a write that failed may have left, goes.
class Appended {
 public:
  Appended(const std::string& path, std::size_t kept)
      : path_(path),
        descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) fail("cannot open");
    if (::ftruncate(descriptor_, static_cast<off_t>(kept)) == 0) return;
    const int reason = errno;
    ::close(descriptor_);
    errno = reason;
    fail("cannot write");
  }
  ~Appended() { ::close(descriptor_); }
  Appended(const Appended&) = delete;
  Appended& operator=(const Appended&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail("cannot write");
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    if (::fsync(descriptor_) != 0) fail("cannot write");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw IoError("{}: {}: {}", path_, what, std::strerror(errno));
  }
  const std::string& path_;
  int descriptor_;
};

std::string read_if_there(const std::string& path) {
  try {
    return read_file(path);
  } catch (const NotFound&) {
    return "";
  }
}

}  // namespace

HistoryFile::HistoryFile(const std::string& folder) : path_(folder + "/history.jsonl") {}

std::string HistoryFile::resume(std::size_t count) {
  if (count == 0) return {};
  std::string lines = read_if_there(path_);
  const std::size_t before = lines.size();
  std::size_t end = 0;
  for (written_ = 0; written_ < count; ++written_) {
    const std::size_t found = lines.find('\n', end);
    if (found == std::string::npos) break;
    end = found + 1;
  }
  lines.resize(end);
  bytes_ = end;
  if (end < before) write_file(path_, lines);
  return lines;
}

void HistoryFile::write(const std::vector<EvaluationRecord>& history, std::size_t count) {
  if (count <= written_) return;
  std::error_code ignored;  // opening fails then
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  const std::span next = std::span(history).subspan(written_, count - written_);
  const std::string lines = lines_of(next);
  Appended(path_, bytes_).write(lines);
  written_ = count;
  bytes_ += lines.size();
}

}  // namespace lockstep::train::detail
