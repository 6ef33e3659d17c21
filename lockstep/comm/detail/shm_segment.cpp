// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/shm_segment.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <thread>

#include "lockstep/comm/detail/shm_memory.h"

namespace lockstep::comm {
namespace {

constexpr std::uint64_t kShmMagic = 0x316d68734b434f4c;  // the layout's version is in it
constexpr std::size_t kPage = 4096;
constexpr auto kPoll = std::chrono::milliseconds(1);

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::string shm_name(const std::string& job) { return "/lockstep-" + job; }

// All streams of a large group together stay within reason.
std::size_t choose_stream_size(int size) {
  const auto pairs = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  const std::size_t share = std::bit_floor(std::size_t{64} * 1024 * 1024 / pairs);
  return std::clamp<std::size_t>(share, 16 * 1024, 256 * 1024);
}

void check_options(const ShmOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw InvalidArgument("shm: got rank {} of {} ranks", options.rank, options.size);
  if (options.job.empty() || options.job.find('/') != std::string::npos || options.job.size() > 200)
    throw InvalidArgument(
        "shm: the job's name is '{}', expected 1 to 200 characters without a slash", options.job);
}

[[noreturn]] void refuse_space(std::size_t bytes, int size, int error) {
  struct statvfs room {};
  statvfs("/dev/shm", &room);
  throw IoError(
      "/dev/shm: shared memory for {} ranks needs {} KB, {} KB are free: {}; make it larger (a "
      "container: --shm-size) or use fewer workers",
      size, bytes / 1024, room.f_bavail * room.f_frsize / 1024, std::strerror(error));
}

}  // namespace

bool remove_shm(const std::string& job) { return shm_unlink(shm_name(job).c_str()) == 0; }

ShmSegment::ShmSegment(const ShmOptions& options) : size_(options.size) {
  check_options(options);
  lay_out();
  const std::string name = shm_name(options.job);
  const Deadline deadline = Clock::now() + options.timeout;
  if (options.rank == 0) {
    create(name);
  } else {
    while (!join(name)) {
      if (Clock::now() > deadline)
        throw Timeout(fmt::format("connect: rank 0 on {} has not made /dev/shm{} in time",
                                  options.host, name),
                      0, options.host, "connect");
      std::this_thread::sleep_for(kPoll);
    }
  }
  rank(options.rank).pid = getpid();
  // The last one to come takes the name away: nothing is left behind, however the ranks end.
  if (++header().mapped == size_) shm_unlink(name.c_str());
  wait_for_all(options, deadline, name);
}

ShmSegment::~ShmSegment() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

void ShmSegment::lay_out() {
  const auto size = static_cast<std::size_t>(size_);
  stream_size_ = choose_stream_size(size_);
  ranks_at_ = round_up(sizeof(ShmHeader), kPage);
  streams_at_ = ranks_at_ + round_up(size * sizeof(ShmRank), kPage);
  stages_at_ = streams_at_ + round_up(size * size * (sizeof(ShmStream) + stream_size_), kPage);
  bytes_ = stages_at_ + size * kStages * kStageBytes;
}

void ShmSegment::map(int file) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED)
    throw IoError("/dev/shm: cannot map {} KB: {}", bytes_ / 1024, std::strerror(errno));
  base_ = static_cast<std::byte*>(memory);
}

void ShmSegment::create(const std::string& name) {
  const ShmFile file(shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (file.number < 0) throw IoError("/dev/shm{}: cannot be made: {}", name, std::strerror(errno));
  // Now, and not as a SIGBUS later, is the time to find out that there is not enough.
  const int error = posix_fallocate(file.number, 0, static_cast<off_t>(bytes_));
  if (error != 0) {
    shm_unlink(name.c_str());
    refuse_space(bytes_, size_, error);
  }
  map(file.number);
  header().bytes = bytes_;
  header().size = size_;
  header().cores = usable_cores();
  for (int i = 0; i < size_; ++i) rank(i).waiting_on = rank(i).core = -1;
  header().ready.store(kShmMagic);
}

// False as long as rank 0 has not made it.
bool ShmSegment::join(const std::string& name) {
  const ShmFile file(shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0));
  struct stat status {};
  if (file.number < 0 || fstat(file.number, &status) != 0) return false;
  if (static_cast<std::size_t>(status.st_size) < sizeof(ShmHeader)) return false;
  if (base_ == nullptr) map(file.number);
  if (header().ready.load() != kShmMagic) return false;
  if (header().size != size_ || header().bytes != bytes_)
    throw InvalidArgument("shm: rank 0 has {} ranks and {} bytes, this rank {} and {}",
                          header().size, header().bytes, size_, bytes_);
  return true;
}

void ShmSegment::wait_for_all(const ShmOptions& options, Deadline deadline,
                              const std::string& name) {
  while (header().mapped < size_) {
    if (Clock::now() > deadline) {
      shm_unlink(name.c_str());
      int missing = 0;
      while (missing + 1 < size_ && rank(missing).pid != 0) ++missing;
      throw Timeout(
          fmt::format("connect: rank {} on {} has not come in time", missing, options.host),
          missing, options.host, "connect");
    }
    std::this_thread::sleep_for(kPoll);
  }
}

ShmRank& ShmSegment::rank(int rank) const {
  return reinterpret_cast<ShmRank*>(base_ + ranks_at_)[rank];
}

ShmStream& ShmSegment::stream(int from, int to) const {
  const auto place = static_cast<std::size_t>(from * size_ + to);
  return *reinterpret_cast<ShmStream*>(base_ + streams_at_ +
                                       place * (sizeof(ShmStream) + stream_size_));
}

std::byte* ShmSegment::stream_bytes(int from, int to) const {
  return reinterpret_cast<std::byte*>(&stream(from, to)) + sizeof(ShmStream);
}

std::byte* ShmSegment::stage(int rank, std::uint64_t chunk) const {
  const std::size_t place = static_cast<std::size_t>(rank) * kStages + chunk % kStages;
  return base_ + stages_at_ + place * kStageBytes;
}

}  // namespace lockstep::comm
