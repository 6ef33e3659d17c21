// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// Throws NotFound when there is no such file, IoError when it cannot be read.
std::string read_file(const std::string& path);

// A file that appears under its name whole or not at all: until commit() it is written under a
// temporary one beside it, which goes away with this object. Throws NotFound when the folder is
// missing, else IoError.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(std::span<const std::byte> bytes);
  // On the disk, and under its name, when this returns.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

// Bytes that look like a file, for what reads files only. Nobody else sees it.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view contents);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const;

 private:
  int fd_ = -1;
};

// All or nothing: a reader sees the old contents or the new ones, and a failed write leaves the
// old. Throws IoError.
void write_file(const std::string& path, std::string_view contents);

}  // namespace lockstep
