// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>

#include "lockstep/io/detail/zip.h"

namespace lockstep::io::detail {
namespace {

constexpr std::uint64_t kNarrowest = 0xffffffff;  // from here on numbers stand in wider records
constexpr std::uint16_t kVersion = 20, kWideVersion = 45, kUtf8 = 0x800;
constexpr std::uint16_t kFirstDay = 0x21;  // 1980-01-01: no clock decides bytes

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::uint32_t narrow(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min(value, kNarrowest));
}

// What both headers of an entry have: flags, method (stored), time, day, checksum, sizes, lengths.
void put_facts(std::string& bytes, const ZipEntry& entry, std::size_t extra) {
  put(bytes, kUtf8);
  put(bytes, std::uint16_t{0});
  put(bytes, std::uint16_t{0});
  put(bytes, kFirstDay);
  put(bytes, entry.crc);
  put(bytes, narrow(entry.size));
  put(bytes, narrow(entry.size));
  put(bytes, static_cast<std::uint16_t>(entry.name.size()));
  put(bytes, static_cast<std::uint16_t>(extra));
}

std::string wide_field(std::initializer_list<std::uint64_t> numbers) {
  std::string field;
  if (numbers.size() == 0) return field;
  put(field, std::uint16_t{1});
  put(field, static_cast<std::uint16_t>(8 * numbers.size()));
  for (const std::uint64_t number : numbers) put(field, number);
  return field;
}

std::string local_header(const ZipEntry& entry) {
  const bool wide = entry.size >= kNarrowest;
  const std::string extra =
      wide ? wide_field({entry.size, entry.size}) : std::string();  // both, in this header
  std::string bytes = "PK\3\4";
  put(bytes, wide ? kWideVersion : kVersion);
  put_facts(bytes, entry, extra.size());
  return bytes + entry.name + extra;
}

std::string list_entry(const ZipEntry& entry) {
  const bool wide_size = entry.size >= kNarrowest, wide_place = entry.offset >= kNarrowest;
  const std::string extra = wide_size && wide_place
                                ? wide_field({entry.size, entry.size, entry.offset})
                            : wide_size  ? wide_field({entry.size, entry.size})
                            : wide_place ? wide_field({entry.offset})
                                         : std::string();
  const std::uint16_t version = extra.empty() ? kVersion : kWideVersion;
  std::string bytes = "PK\1\2";
  put(bytes, version);
  put(bytes, version);
  put_facts(bytes, entry, extra.size());
  bytes.append(10, '\0');  // comment, disk, attributes
  put(bytes, narrow(entry.offset));
  return bytes + entry.name + extra;
}

std::string wide_end(std::uint64_t offset, std::uint64_t bytes, std::uint64_t entries) {
  std::string record = "PK\6\6";
  put(record, std::uint64_t{44});  // bytes that follow
  put(record, kWideVersion);
  put(record, kWideVersion);
  put(record, std::uint64_t{0});  // disks
  put(record, entries);
  put(record, entries);
  put(record, bytes);
  put(record, offset);
  record += "PK\6\7";
  put(record, std::uint32_t{0});
  put(record, offset + bytes);
  put(record, std::uint32_t{1});
  return record;
}

std::string end_record(std::uint64_t offset, std::uint64_t bytes, std::uint64_t entries) {
  const auto count = static_cast<std::uint16_t>(std::min<std::uint64_t>(entries, 0xffff));
  std::string record;
  if (offset >= kNarrowest || bytes >= kNarrowest || entries >= 0xffff)
    record = wide_end(offset, bytes, entries);
  record += "PK\5\6";
  put(record, std::uint32_t{0});
  put(record, count);
  put(record, count);
  put(record, narrow(bytes));
  put(record, narrow(offset));
  put(record, std::uint16_t{0});
  return record;
}

std::uint32_t checksum(std::uint32_t before, const void* bytes, std::size_t count) {
  return count == 0
             ? before
             : static_cast<std::uint32_t>(crc32_z(before, static_cast<const Bytef*>(bytes), count));
}

}  // namespace

void ZipWriter::add(const std::string& name, std::string_view head,
                    std::span<const std::byte> body) {
  ZipEntry entry{.name = name, .offset = at_, .size = head.size() + body.size()};
  entry.crc = checksum(checksum(0, head.data(), head.size()), body.data(), body.size());
  write(local_header(entry));
  write(head);
  file_.write(body);
  at_ += body.size();
  entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
  const std::uint64_t offset = at_;
  for (const ZipEntry& entry : entries_) write(list_entry(entry));
  write(end_record(offset, at_ - offset, entries_.size()));
  file_.commit();
}

void ZipWriter::write(std::string_view bytes) {
  file_.write(std::as_bytes(std::span(bytes)));
  at_ += bytes.size();
}

}  // namespace lockstep::io::detail
