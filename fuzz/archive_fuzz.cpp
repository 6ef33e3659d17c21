// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/sha256.h"
#include "lockstep/io/archive.h"

namespace {

// A file in memory, of these bytes.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : fd_(::memfd_create("archive", 0)) {
    if (::write(fd_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      __builtin_trap();
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace

// An archive of any bytes gives tensors or a typed error. Its sum is put right, so that what is
// before it is really read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const MemoryFile file(bytes + lockstep::sha256_hex(bytes));
  try {
    lockstep::io::read_archive(file.path());
  } catch (const lockstep::Error&) {
  }
  return 0;
}
