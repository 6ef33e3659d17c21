// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/io/detail/input_file.h"

namespace lockstep::io::detail {

struct ZipEntry {
  std::string name;
  std::uint64_t offset = 0;  // of its local header
  std::uint64_t packed = 0, size = 0;
  std::uint32_t crc = 0;
  std::uint16_t method = 0, flags = 0;
};

// Entries that are stored or deflated, of files below and above 4 GB. Throws Corrupt that begins
// with the path.
class ZipReader {
 public:
  // Deflated entries become `max_inflated` bytes at most, all together.
  ZipReader(const InputFile& file, std::uint64_t max_inflated);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  std::uint64_t inflated_left() const { return inflated_left_; }
  // Its checksum was right. What was read is counted: stored entries that overlap are refused.
  std::string contents(const ZipEntry& entry);

 private:
  std::string stored(const ZipEntry& entry, std::uint64_t offset);
  std::string inflated(const ZipEntry& entry, std::uint64_t offset);

  const InputFile& file_;
  std::vector<ZipEntry> entries_;
  std::uint64_t stored_left_, inflated_left_;
};

// Stored entries; the same contents are the same bytes, whenever they are written.
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : file_(path) {}
  // An entry of `head` and then `body`.
  void add(const std::string& name, std::string_view head, std::span<const std::byte> body);
  // The entries' list; the file is there when it returns.
  void finish();

 private:
  void write(std::string_view bytes);
  AtomicFile file_;
  std::vector<ZipEntry> entries_;
  std::uint64_t at_ = 0;
};

}  // namespace lockstep::io::detail
