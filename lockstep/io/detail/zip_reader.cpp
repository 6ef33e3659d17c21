// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <set>

#include "lockstep/io/detail/zip.h"

// A zip file ends with a record that says where the list of entries is (and, above 4 GB, is
// preceded by one with wider numbers); the list says where each entry's local header is, which the
// entry's bytes follow. Sizes are taken from the list.
namespace lockstep::io::detail {
namespace {

constexpr std::size_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kListBytes = 46,
                      kLocalBytes = 30, kLongestComment = 0xffff;
constexpr std::uint32_t kNarrow = 0xffffffff;  // the number is in the wider record
constexpr std::uint16_t kStored = 0, kDeflated = 8, kEncrypted = 1, kWideNumbers = 1;
constexpr std::uint64_t kMostInflation = 1032;  // of deflate

struct List {
  std::uint64_t offset = 0, bytes = 0, entries = 0;
};

std::uint16_t u16(std::string_view bytes, std::size_t at) {
  return number_in<std::uint16_t>(bytes, at);
}
std::uint32_t u32(std::string_view bytes, std::size_t at) {
  return number_in<std::uint32_t>(bytes, at);
}
std::uint64_t u64(std::string_view bytes, std::size_t at) {
  return number_in<std::uint64_t>(bytes, at);
}

// Where the last record is. Nothing follows it but its comment.
std::uint64_t find_end(const InputFile& file) {
  const std::uint64_t longest = std::min<std::uint64_t>(file.size(), kEndBytes + kLongestComment);
  const std::string tail = file.text_at(file.size() - longest, longest);
  std::size_t at = tail.rfind("PK\5\6");
  for (; at != std::string::npos; at = at == 0 ? at : tail.rfind("PK\5\6", at - 1)) {
    if (tail.size() - at >= kEndBytes && tail.size() - at - kEndBytes == u16(tail, at + 20))
      return file.size() - longest + at;
    if (at == 0) break;
  }
  file.fail("is no zip file, or ends early: its list of entries is missing");
}

List wide_list(const InputFile& file, std::uint64_t end) {
  if (end < kLocatorBytes) file.fail("its list of entries is missing");
  const std::string locator = file.text_at(end - kLocatorBytes, kLocatorBytes);
  if (!locator.starts_with("PK\6\7")) file.fail("its list of entries is missing");
  const std::string record = file.text_at(u64(locator, 8), kEnd64Bytes);
  if (!record.starts_with("PK\6\6")) file.fail("its list of entries is missing");
  return {u64(record, 48), u64(record, 40), u64(record, 32)};
}

List find_list(const InputFile& file) {
  const std::uint64_t end = find_end(file);
  const std::string record = file.text_at(end, kEndBytes);
  List list{u32(record, 16), u32(record, 12), u16(record, 10)};
  if (list.offset == kNarrow || list.bytes == kNarrow || list.entries == 0xffff)
    list = wide_list(file, end);
  if (list.offset > end || list.bytes > end - list.offset || list.entries > list.bytes / kListBytes)
    file.fail("its list of {} entries is not inside the file", list.entries);
  return list;
}

// Numbers that do not fit into 32 bits stand in an extra field, those of them that are needed.
void take_wide_numbers(ZipEntry& entry, std::string_view extra) {
  while (extra.size() >= 4) {
    const std::size_t length = std::min<std::size_t>(u16(extra, 2), extra.size() - 4);
    std::string_view field = extra.substr(4, length);
    if (u16(extra, 0) == kWideNumbers)
      for (std::uint64_t* number : {&entry.size, &entry.packed, &entry.offset})
        if (*number == kNarrow && field.size() >= 8) {
          *number = u64(field, 0);
          field.remove_prefix(8);
        }
    extra.remove_prefix(4 + length);
  }
}

std::vector<ZipEntry> read_list(const InputFile& file) {
  const List list = find_list(file);
  const std::string bytes = file.text_at(list.offset, list.bytes);
  std::string_view rest = bytes;
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < list.entries; ++i) {
    if (rest.size() < kListBytes || !rest.starts_with("PK\1\2"))
      file.fail("its list of entries is damaged at entry {}", i);
    const std::size_t name = u16(rest, 28), extra = u16(rest, 30), comment = u16(rest, 32);
    if (rest.size() - kListBytes < name + extra + comment)
      file.fail("its list of entries is damaged at entry {}", i);
    ZipEntry entry{std::string(rest.substr(kListBytes, name)),
                   u32(rest, 42),
                   u32(rest, 20),
                   u32(rest, 24),
                   u32(rest, 16),
                   u16(rest, 10),
                   u16(rest, 8)};
    take_wide_numbers(entry, rest.substr(kListBytes + name, extra));
    if (!names.insert(entry.name).second) file.fail("two entries are named '{}'", entry.name);
    entries.push_back(std::move(entry));
    rest.remove_prefix(kListBytes + name + extra + comment);
  }
  return entries;
}

class Inflater {
 public:
  explicit Inflater(const std::string& path) {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw OutOfMemory("{}: no memory", path);
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Whether `packed` is just what `target` holds. zlib counts in 32 bits.
  bool fill(std::string_view packed, std::string& target) {
    constexpr std::size_t kChunk = std::size_t{1} << 30;
    std::size_t done = 0;
    char beyond = 0;  // a byte too many would land here
    while (true) {
      const std::size_t in = std::min(packed.size(), kChunk);
      const std::size_t out = std::min(target.size() - done, kChunk);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
      stream_.avail_in = static_cast<uInt>(in);
      stream_.next_out = reinterpret_cast<Bytef*>(out > 0 ? target.data() + done : &beyond);
      stream_.avail_out = static_cast<uInt>(out > 0 ? out : 1);
      const uInt room = stream_.avail_out;
      const int status = inflate(&stream_, Z_NO_FLUSH);
      const std::size_t made = room - stream_.avail_out, used = in - stream_.avail_in;
      if (out == 0 && made > 0) return false;
      done += made;
      packed.remove_prefix(used);
      if (status == Z_STREAM_END) return done == target.size() && packed.empty();
      if ((status != Z_OK && status != Z_BUF_ERROR) || (made == 0 && used == 0)) return false;
    }
  }

 private:
  z_stream stream_{};
};

}  // namespace

ZipReader::ZipReader(const InputFile& file, std::uint64_t max_inflated)
    : file_(file),
      entries_(read_list(file)),
      stored_left_(file.size()),
      inflated_left_(max_inflated) {}

std::string ZipReader::contents(const ZipEntry& entry) {
  const std::string local = file_.text_at(entry.offset, kLocalBytes);
  if (!local.starts_with("PK\3\4")) file_.fail("entry '{}' is not where it should be", entry.name);
  if ((entry.flags & kEncrypted) != 0) file_.fail("entry '{}' is encrypted", entry.name);
  const std::uint64_t offset = entry.offset + kLocalBytes + u16(local, 26) + u16(local, 28);
  std::string bytes;
  if (entry.method == kStored)
    bytes = stored(entry, offset);
  else if (entry.method == kDeflated)
    bytes = inflated(entry, offset);
  else
    file_.fail("entry '{}' is compressed by method {}, expected 0 (stored) or 8 (deflate)",
               entry.name, entry.method);
  if (crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != entry.crc)
    file_.fail("entry '{}': its checksum does not fit its contents", entry.name);
  return bytes;
}

std::string ZipReader::stored(const ZipEntry& entry, std::uint64_t offset) {
  if (entry.size != entry.packed || entry.size > stored_left_)
    file_.fail("entry '{}' says it has {} bytes", entry.name, entry.size);
  stored_left_ -= entry.size;
  return file_.text_at(offset, entry.size);
}

std::string ZipReader::inflated(const ZipEntry& entry, std::uint64_t offset) {
  const std::string packed = file_.text_at(offset, entry.packed);
  if (entry.size / kMostInflation > packed.size())
    file_.fail("entry '{}' says that {} bytes inflate to {}", entry.name, packed.size(),
               entry.size);
  if (entry.size > inflated_left_)
    file_.fail("entry '{}' inflates to {} bytes, more than are left of max_inflated", entry.name,
               entry.size);
  inflated_left_ -= entry.size;
  std::string bytes(entry.size, '\0');
  if (!Inflater(file_.path()).fill(packed, bytes))
    file_.fail("entry '{}' is damaged: it does not inflate to {} bytes", entry.name, entry.size);
  return bytes;
}

}  // namespace lockstep::io::detail
