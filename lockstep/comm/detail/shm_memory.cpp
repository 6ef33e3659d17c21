// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/shm_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace lockstep::comm {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kPlaceBits = 44;  // of a place; those above number the block, from 1 on

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

ShmFile::~ShmFile() {
  if (number >= 0) close(number);
}

int make_unnamed_file() {
  const int file = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  return file >= 0 ? file : memfd_create("lockstep", MFD_CLOEXEC);
}

ShmMemory::~ShmMemory() {
  for (const Block& block : blocks_) munmap(block.base, whole(block.part));
}

int ShmMemory::make_file(std::size_t bytes) const {
  const int file = make_unnamed_file();
  if (file < 0) return -1;
  // Now, and not as a SIGBUS later, is the time to find out that there is not enough.
  if (posix_fallocate(file, 0, static_cast<off_t>(whole(whole_pages(bytes)))) == 0) return file;
  close(file);
  return -1;
}

int ShmMemory::open_file(int process, int number) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, number);
  return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

std::span<std::byte> ShmMemory::map(int file, std::size_t bytes) {
  const std::size_t part = whole_pages(bytes);
  void* memory = mmap(nullptr, whole(part), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return {};
  blocks_.push_back({static_cast<std::byte*>(memory), part});
  return {at(rank_, static_cast<std::uint64_t>(blocks_.size()) << kPlaceBits), bytes};
}

void ShmMemory::unmap_last() {
  munmap(blocks_.back().base, whole(blocks_.back().part));
  blocks_.pop_back();
}

const std::byte* ShmMemory::own(const Block& block) const {
  return block.base + static_cast<std::size_t>(rank_) * block.part;
}

std::uint64_t ShmMemory::place_of(const std::byte* data, std::size_t bytes) const {
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const std::byte* begin = own(blocks_[i]);
    if (data >= begin && data + bytes <= begin + blocks_[i].part)
      return (static_cast<std::uint64_t>(i + 1) << kPlaceBits) +
             static_cast<std::uint64_t>(data - begin);
  }
  return 0;
}

std::byte* ShmMemory::at(int rank, std::uint64_t place) const {
  const Block& block = blocks_.at((place >> kPlaceBits) - 1);
  return block.base + static_cast<std::size_t>(rank) * block.part +
         (place & ((std::uint64_t{1} << kPlaceBits) - 1));
}

}  // namespace lockstep::comm
