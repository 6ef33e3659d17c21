// SPDX-License-Identifier: Apache-2.0
#include "lockstep/io/detail/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>

namespace lockstep::io::detail {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

InputFile::InputFile(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (fd_ < 0 && errno == ENOENT) throw NotFound("{}: no such file", path_);
  if (fd_ < 0) throw IoError("{}: cannot open: {}", path_, std::strerror(errno));
  struct stat status {};
  const bool is_file = ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode);
  if (!is_file) {
    ::close(fd_);
    throw IoError("{}: is no file", path_);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::InputFile(std::string name, std::string_view bytes)
    : path_(std::move(name)), bytes_(bytes), size_(bytes.size()) {}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void InputFile::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  if (offset > size_ || bytes.size() > size_ - offset) fail("ends early");
  if (fd_ < 0 && !bytes.empty()) {
    std::memcpy(bytes.data(), bytes_.data() + offset, bytes.size());
    return;
  }
  while (!bytes.empty()) {
    const ssize_t count = ::pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw IoError("{}: cannot read: {}", path_, std::strerror(errno));
    if (count == 0) fail("ends early");  // it has become shorter
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

std::string InputFile::text_at(std::uint64_t offset, std::uint64_t count) const {
  if (offset > size_ || count > size_ - offset) fail("ends early");
  std::string text(count, '\0');
  read_at(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace lockstep::io::detail
