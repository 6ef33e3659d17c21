// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/record_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lockstep/data/detail/bytes.h"
#include "lockstep/data/detail/record_format.h"

namespace lockstep::data {

// A file, or bytes in memory.
class RecordFile::Source {
 public:
  explicit Source(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0 && errno == ENOENT) throw NotFound("{}: cannot open: no such file or folder", path);
    struct stat status {};
    if (fd_ < 0 || ::fstat(fd_, &status) != 0)
      throw IoError("{}: cannot open: {}", path, std::strerror(errno));
    size_ = static_cast<std::uint64_t>(status.st_size);
  }
  Source(std::string bytes, const std::string& name)
      : path_(name), bytes_(std::move(bytes)), size_(bytes_.size()) {}
  ~Source() {
    if (fd_ >= 0) ::close(fd_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }

  // Appends `count` bytes; the caller has checked that they are within the size.
  void append(std::string& target, std::uint64_t offset, std::size_t count) const {
    if (fd_ < 0) {
      target.append(bytes_, offset, count);
      return;
    }
    std::size_t done = target.size();
    target.resize(done + count);
    while (done < target.size()) {
      const ssize_t got =
          ::pread(fd_, target.data() + done, target.size() - done, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0)
        throw IoError("{}: cannot read at {}: {}", path_, offset,
                      got == 0 ? "the file has become shorter" : std::strerror(errno));
      done += static_cast<std::size_t>(got);
      offset += static_cast<std::uint64_t>(got);
    }
  }

 private:
  std::string path_;
  std::string bytes_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

namespace {

using detail::Part;
using detail::PartHeader;

// The header of the part at `offset`, its length checked against the file's.
template <class Source>  // RecordFile::Source, which is private
PartHeader header_at(const Source& source, std::uint64_t offset) {
  if (offset % 4 != 0 || offset > source.size() ||
      source.size() - offset < detail::kPartHeaderBytes)
    throw Corrupt("{}: record: no room for a record at offset {} of {} bytes", source.path(),
                  offset, source.size());
  std::string bytes;
  source.append(bytes, offset, detail::kPartHeaderBytes);
  const PartHeader header = detail::parse_part_header(bytes);
  if (header.magic != detail::kRecordMagic)
    throw Corrupt("{}: record: {:08x} at offset {}, expected {:08x}", source.path(), header.magic,
                  offset, detail::kRecordMagic);
  const std::uint64_t room = source.size() - offset - detail::kPartHeaderBytes;
  if (detail::padded(header.length) > room)
    throw Corrupt("{}: record: {} bytes at offset {}, the file has {} more", source.path(),
                  header.length, offset, room);
  return header;
}

[[noreturn]] void fail_order(const std::string& path, std::uint64_t offset, Part part) {
  throw Corrupt("{}: record: part of kind {} at offset {} does not fit there", path,
                static_cast<int>(part), offset);
}

// The first offset from `begin` on where a record begins; the file's size if there is none.
template <class Source>
std::uint64_t find_record(const Source& source, std::uint64_t begin) {
  constexpr std::uint64_t kWindow = std::uint64_t{1} << 16;
  for (std::uint64_t at = begin; at + detail::kPartHeaderBytes <= source.size();) {
    std::string bytes;
    source.append(bytes, at, static_cast<std::size_t>(std::min(kWindow + 4, source.size() - at)));
    for (std::size_t i = 0; i + detail::kPartHeaderBytes <= bytes.size(); i += 4) {
      const PartHeader header = detail::parse_part_header(std::string_view(bytes).substr(i));
      if (header.magic == detail::kRecordMagic && detail::begins_record(header.part)) return at + i;
    }
    at += kWindow;
  }
  return source.size();
}

}  // namespace

RecordFile RecordFile::open(const std::string& path) {
  return RecordFile(std::make_shared<const Source>(path));
}

RecordFile RecordFile::from_bytes(std::string bytes, const std::string& name) {
  return RecordFile(std::make_shared<const Source>(std::move(bytes), name));
}

std::uint64_t RecordFile::size() const { return source_->size(); }
const std::string& RecordFile::path() const { return source_->path(); }

RecordFile::Record RecordFile::read(std::uint64_t offset) const {
  Record record{{}, offset};
  PartHeader header = header_at(*source_, offset);
  if (!detail::begins_record(header.part)) fail_order(path(), offset, header.part);
  while (true) {
    source_->append(record.bytes, record.next + detail::kPartHeaderBytes, header.length);
    record.next += detail::kPartHeaderBytes + detail::padded(header.length);
    if (header.part == Part::whole || header.part == Part::last) return record;
    detail::append_little_endian(record.bytes, detail::kRecordMagic);
    header = header_at(*source_, record.next);
    if (!detail::continues_record(header.part)) fail_order(path(), record.next, header.part);
  }
}

std::vector<std::uint64_t> RecordFile::offsets(std::int64_t part, std::int64_t parts) const {
  if (parts < 1 || part < 0 || part >= parts)
    throw InvalidArgument("{}: record: part {} of {}", path(), part, parts);
  const auto border = [&](std::int64_t p) {
    const std::uint64_t step = size() / static_cast<std::uint64_t>(parts) / 4 * 4 + 4;
    const std::uint64_t at = std::min(size(), step * static_cast<std::uint64_t>(p));
    return at == 0 ? 0 : find_record(*source_, at);
  };
  const std::uint64_t end = part + 1 == parts ? size() : border(part + 1);
  std::vector<std::uint64_t> result;
  for (std::uint64_t at = border(part); at < end;) {
    const PartHeader header = header_at(*source_, at);
    if (detail::begins_record(header.part)) result.push_back(at);
    at += detail::kPartHeaderBytes + detail::padded(header.length);
  }
  return result;
}

}  // namespace lockstep::data
