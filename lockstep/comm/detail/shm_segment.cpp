// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/shm_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "lockstep/base/machine_limits.h"
#include "lockstep/comm/detail/shm_memory.h"
#include "lockstep/comm/detail/shm_rendezvous.h"

namespace lockstep::comm {
namespace {

constexpr std::uint64_t kShmMagic = 0x326d68734b434f4c;  // the layout's version is in it
constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// All streams of a large group together stay within reason.
std::size_t choose_stream_size(int size) {
  const auto pairs = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  const std::size_t share = std::bit_floor(std::size_t{64} * 1024 * 1024 / pairs);
  return std::clamp<std::size_t>(share, 16 * 1024, 256 * 1024);
}

const ShmOptions& checked(const ShmOptions& options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw InvalidArgument("shm: got rank {} of {} ranks", options.rank, options.size);
  if (options.group.empty() || options.group.size() > 80)
    throw InvalidArgument("shm: the group's name is '{}', expected 1 to 80 characters",
                          options.group);
  return options;
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

ShmSegment::ShmSegment(const ShmOptions& options) : ShmSegment(checked(options).size) {
  const Deadline deadline = Clock::now() + options.timeout;
  if (options.rank == 0)
    create(options, deadline);
  else
    join(options, deadline);
}

ShmSegment::~ShmSegment() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

ShmSegment::ShmSegment(int size_of_group) : size_(size_of_group) {
  const auto size = static_cast<std::size_t>(size_of_group);
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

void ShmSegment::create(const ShmOptions& options, Deadline deadline) {
  detail::ShmRendezvousServer rendezvous(options, deadline);
  try {
    const ShmFile file(make_file());
    map(file.number);
    write_header();
    rank(0).pid = getpid();
    rendezvous.share(file.number);
  } catch (const Error& error) {
    rendezvous.refuse_all(error);
    throw;
  }
}

int ShmSegment::make_file() const {
  const int file = make_unnamed_file();
  if (file < 0) throw IoError("/dev/shm: no file can be made there: {}", std::strerror(errno));
  // Now, and not as a SIGBUS later, is the time to find out that there is not enough.
  const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes_));
  if (error == 0) return file;
  close(file);
  refuse_space(bytes_, size_, error);
}

void ShmSegment::write_header() {
  header().bytes = bytes_;
  header().size = size_;
  header().cores = usable_threads();
  for (int i = 0; i < size_; ++i) rank(i).waiting_on = rank(i).core = -1;
  header().ready.store(kShmMagic);
}

void ShmSegment::join(const ShmOptions& options, Deadline deadline) {
  detail::ShmRendezvousClient rendezvous(options, deadline);
  try {
    const ShmFile file(rendezvous.take_file());
    map(file.number);
    check_header(options);
    rank(options.rank).pid = getpid();
    rendezvous.await_all([this] { return first_missing(); });
  } catch (const Error& error) {
    rendezvous.leave(error);
    throw;
  }
}

void ShmSegment::check_header(const ShmOptions& options) const {
  if (header().ready.load() != kShmMagic || header().size != size_ || header().bytes != bytes_)
    throw InvalidArgument("shm: rank 0 has {} ranks and {} bytes, rank {} has {} and {}",
                          header().size, header().bytes, options.rank, size_, bytes_);
}

// When all have come, it is rank 0 that has not said so.
int ShmSegment::first_missing() const {
  for (int i = 1; i < size_; ++i)
    if (rank(i).pid == 0) return i;
  return 0;
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
