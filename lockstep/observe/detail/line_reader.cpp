// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/detail/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lockstep/base/error.h"

namespace lockstep::observe {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr std::size_t kLongest = std::size_t{1} << 20;

}  // namespace

LineReader::LineReader(const std::string& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ >= 0) return;
  if (errno == ENOENT) throw NotFound("{}: cannot open: no such file or folder", path);
  throw IoError("{}: cannot open: {}", path, std::strerror(errno));
}

LineReader::~LineReader() { ::close(descriptor_); }

bool LineReader::next() {
  line_.clear();
  std::size_t length = 0;
  while (at_ < piece_.size() || fill()) {
    const std::size_t found = piece_.find('\n', at_);
    const std::size_t stop = found == std::string::npos ? piece_.size() : found;
    length += stop - at_;
    if (length <= kLongest)
      line_.append(piece_, at_, stop - at_);
    else
      line_.clear();
    at_ = stop;
    if (found == std::string::npos) continue;
    ++at_;
    end_ += length + 1;
    return true;
  }
  return false;
}

bool LineReader::is_last() { return at_ >= piece_.size() && !fill(); }

bool LineReader::fill() {
  piece_.resize(kPiece);
  at_ = 0;
  ssize_t count = 0;
  do count = ::read(descriptor_, piece_.data(), piece_.size());
  while (count < 0 && errno == EINTR);
  const int error = errno;
  piece_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  if (count < 0) throw IoError("{}: cannot read: {}", path_, std::strerror(error));
  return count > 0;
}

}  // namespace lockstep::observe
