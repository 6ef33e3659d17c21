// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/comm/transport.h"

namespace lockstep::comm {

// Closes a file when it goes.
struct ShmFile {
  int number;
  explicit ShmFile(int file) : number(file) {}
  ~ShmFile();
  ShmFile(const ShmFile&) = delete;
  ShmFile& operator=(const ShmFile&) = delete;
};

// A new file in /dev/shm that has no name, or anywhere in memory where that cannot be; -1 and
// errno.
int make_unnamed_file();

// Memory that every rank of a group sees: each has a part of its own in each block, and maps the
// others' too. It has no name, so that nothing of it can stay behind.
class ShmMemory {
 public:
  ShmMemory(int rank, int size) : rank_(rank), size_(size) {}
  ~ShmMemory();
  ShmMemory(const ShmMemory&) = delete;
  ShmMemory& operator=(const ShmMemory&) = delete;

  // A new block's file with so many bytes for each rank; -1 where there is no room for it.
  int make_file(std::size_t bytes) const;
  // Opens a file that another process has open, or returns -1.
  static int open_file(int process, int number);
  // Maps a block and returns this rank's part, or nothing. The file may be closed then.
  std::span<std::byte> map(int file, std::size_t bytes);
  // Takes back the last block, so that all ranks number them alike.
  void unmap_last();

  // Where bytes lie, the same number on every rank; 0 when they are not in this memory.
  std::uint64_t place_of(const std::byte* data, std::size_t bytes) const;
  std::byte* at(int rank, std::uint64_t place) const;

 private:
  struct Block {
    std::byte* base;
    std::size_t part;  // bytes of a rank
  };
  const std::byte* own(const Block& block) const;
  std::size_t whole(std::size_t part) const { return part * static_cast<std::size_t>(size_); }

  int rank_, size_;
  std::vector<Block> blocks_;
};

}  // namespace lockstep::comm
