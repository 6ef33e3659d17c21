// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/memory_error.h"
#include "lockstep/base/temporary_files.h"

namespace lockstep {
namespace {

// An open file that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail(const std::string& path, const char* what) {
  const int error = errno;
  if (error == ENOENT) throw NotFound("{}: {}: no such file or folder", path, what);
  throw IoError("{}: {}: {}", path, what, std::strerror(error));
}

// A rename is on disk only when its folder is.
void sync_folder(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() >= 0) ::fsync(descriptor.get());
}

// What is no file, such as a pipe or a device, may never end.
constexpr std::size_t kLongestStream = std::size_t{256} << 20;

// Room for a file at once; 0 for what has no size.
std::size_t size_of(int file) {
  struct stat status {};
  const bool known = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  return known ? static_cast<std::size_t>(status.st_size) : 0;
}

std::string read_all(int file, const std::string& path) {
  const std::size_t size = size_of(file);
  std::string contents;
  contents.reserve(size);
  char block[1 << 16];
  while (true) {
    const ssize_t count = ::read(file, block, sizeof block);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, "cannot read");
    if (count == 0) return contents;
    contents.append(block, static_cast<std::size_t>(count));
    if (size == 0 && contents.size() > kLongestStream)
      throw IoError("{}: is no file, and does not end after {} bytes", path, kLongestStream);
  }
}

// Nobody can have put anything there before: neither a file of an older process with our number nor
// a link to somebody else's file.
int open_temporary(std::string& name, const std::string& path) {
  constexpr int kTries = 100;
  int file = -1;
  for (int i = 0; file < 0 && i < kTries; ++i) {
    name = temporary_name(path);
    file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file < 0 && errno != EEXIST) break;
  }
  if (file < 0) fail(path, "cannot create");
  return file;
}

}  // namespace

std::string read_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail(path, "cannot open");
  return with_memory_for(path, [&] { return read_all(file.get(), path); });
}

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), fd_(open_temporary(temporary_, path_)) {}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail(path_, "cannot write");
  if (::close(std::exchange(fd_, -1)) != 0) fail(path_, "cannot write");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "cannot replace");
  temporary_.clear();
  sync_folder(path_);
}

MemoryFile::MemoryFile(std::string_view contents) : fd_(::memfd_create("bytes", MFD_CLOEXEC)) {
  if (fd_ < 0) fail("memory", "cannot create");
  while (!contents.empty()) {
    const ssize_t written = ::write(fd_, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      ::close(fd_);
      fail("memory", "cannot write");
    }
    contents.remove_prefix(static_cast<std::size_t>(written));
  }
}

MemoryFile::~MemoryFile() { ::close(fd_); }

std::string MemoryFile::path() const { return fmt::format("/proc/self/fd/{}", fd_); }

void write_file(const std::string& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(contents)));
  file.commit();
}

}  // namespace lockstep
