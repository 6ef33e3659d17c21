// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/rendezvous_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

namespace lockstep::cluster::detail {
namespace {

using namespace std::chrono_literals;

constexpr auto kLookEvery = 50ms, kConnectTimeout = 2000ms;
constexpr std::size_t kMostBytes = 1 << 16;

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void write_private(const std::string& path, const std::string& text) {
  ::unlink(path.c_str());
  const File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0) throw IoError("{}: cannot be made: {}", path, std::strerror(errno));
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()) || ::fsync(file.get()) != 0)
    throw IoError("{}: cannot be written: {}", path, std::strerror(errno));
}

std::string read_private(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file.get() < 0) throw IoError("{}", std::strerror(errno));
  struct stat facts {};
  ::fstat(file.get(), &facts);
  if (facts.st_uid != ::geteuid() || (facts.st_mode & 077) != 0)
    throw IoError("belongs to user {} with mode {:04o}, expected user {} with mode 0600",
                  facts.st_uid, facts.st_mode & 07777, ::geteuid());
  std::string text(kMostBytes, '\0');
  const ssize_t count = ::read(file.get(), text.data(), text.size());
  if (count < 0) throw IoError("{}", std::strerror(errno));
  text.resize(static_cast<std::size_t>(count));
  return text;
}

// A network file system may remember that a file was not there until its folder is looked at anew.
void look_at_folder(const std::string& path) {
  std::error_code ignored;
  std::filesystem::directory_iterator(std::filesystem::path(path).parent_path(), ignored);
}

}  // namespace

RendezvousFile::RendezvousFile(std::string path, const Invitation& invitation)
    : path_(std::move(path)) {
  const std::string temporary = path_ + ".new";
  write_private(temporary, to_text(invitation));
  if (std::rename(temporary.c_str(), path_.c_str()) == 0) return;
  const int error = errno;
  ::unlink(temporary.c_str());
  throw IoError("{}: cannot be made: {}", path_, std::strerror(error));
}

RendezvousFile::~RendezvousFile() { ::unlink(path_.c_str()); }

Found await_rendezvous_file(const std::string& path, std::chrono::milliseconds timeout) {
  const auto deadline = comm::Clock::now() + timeout;
  std::string reason;
  do {
    try {
      look_at_folder(path);
      const Invitation invitation = parse_invitation(read_private(path));
      return {find_coordinator(invitation, std::min(kConnectTimeout, timeout)), invitation.secret};
    } catch (const Error& error) {
      reason = error.what();
    }
    std::this_thread::sleep_for(kLookEvery);
  } while (comm::Clock::now() < deadline);
  throw comm::Timeout(
      fmt::format("{}: rank 0 invites to no meeting there within {:.1f} s: {}; do all hosts see "
                  "this folder? LOCKSTEP_MEETING_DIR names another",
                  path, std::chrono::duration<double>(timeout).count(), reason),
      0, "", "rendezvous");
}

}  // namespace lockstep::cluster::detail
