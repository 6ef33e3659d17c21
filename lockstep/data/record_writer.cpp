// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "lockstep/base/file.h"
#include "lockstep/data/detail/record_format.h"
#include "lockstep/data/record_io.h"

namespace lockstep::data {
namespace {

using detail::Part;

void append_part(std::string& bytes, Part part, std::string_view data) {
  detail::append_little_endian(bytes, detail::kRecordMagic);
  detail::append_little_endian(bytes, static_cast<std::uint32_t>(part) << detail::kLengthBits |
                                          static_cast<std::uint32_t>(data.size()));
  bytes.append(data);
  bytes.append(detail::padded(data.size()) - data.size(), '\0');
}

std::string format_record(std::string_view record) {
  std::string bytes;
  std::size_t begin = 0;
  for (std::size_t i = 0; i + 4 <= record.size(); i += 4) {
    if (detail::little_endian<std::uint32_t>(record.substr(i)) != detail::kRecordMagic) continue;
    append_part(bytes, begin == 0 ? Part::first : Part::middle, record.substr(begin, i - begin));
    begin = i + 4;
  }
  append_part(bytes, begin == 0 ? Part::whole : Part::last, record.substr(begin));
  return bytes;
}

}  // namespace

struct RecordWriter::Impl {
  Impl(std::string path, std::string index_path) : records(std::move(path)) {
    if (!index_path.empty()) index = std::make_unique<AtomicFile>(std::move(index_path));
  }
  AtomicFile records;
  std::unique_ptr<AtomicFile> index;
  std::string index_text;
  std::uint64_t offset = 0;
  std::int64_t count = 0;
};

RecordWriter::RecordWriter(std::string path, std::string index)
    : impl_(std::make_unique<Impl>(std::move(path), std::move(index))) {}

RecordWriter::~RecordWriter() = default;

void RecordWriter::write(std::string_view record) {
  if (record.size() >> detail::kLengthBits != 0)
    throw InvalidArgument("record: {} bytes, a record has less than {}", record.size(),
                          std::uint64_t{1} << detail::kLengthBits);
  const std::string bytes = format_record(record);
  impl_->records.write(std::as_bytes(std::span(bytes)));
  impl_->index_text += fmt::format("{}\t{}\n", impl_->count, impl_->offset);
  impl_->offset += bytes.size();
  ++impl_->count;
}

void RecordWriter::finish() {
  impl_->records.commit();
  if (!impl_->index) return;
  impl_->index->write(std::as_bytes(std::span(impl_->index_text)));
  impl_->index->commit();
}

}  // namespace lockstep::data
