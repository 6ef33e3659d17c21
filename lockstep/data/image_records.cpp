// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <charconv>
#include <cmath>

#include "lockstep/base/file.h"
#include "lockstep/data/detail/bytes.h"
#include "lockstep/data/record_io.h"

namespace lockstep::data {
namespace {

// How many labels follow (0: the one is here), the label, two numbers.
constexpr std::size_t kHeaderBytes = 24;

float parse_float(std::string_view bytes) {
  return std::bit_cast<float>(detail::little_endian<std::uint32_t>(bytes));
}

class ImageRecords final : public Dataset {
 public:
  ImageRecords(RecordFile file, std::vector<std::uint64_t> offsets, ImageRecordOptions options)
      : file_(std::move(file)), offsets_(std::move(offsets)), options_(options) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(offsets_.size()); }

  Fields sample(std::int64_t index) const override {
    if (index < 0 || index >= size())
      throw InvalidArgument("dataset: sample {} of {} samples", index, size());
    const std::uint64_t offset = offsets_[static_cast<std::size_t>(index)];
    const std::string name = fmt::format("{}: record at {}", file_.path(), offset);
    const ImageRecord record = unpack_image_record(file_.read(offset).bytes, name);
    return {decode_image(record.image, name, options_.image), label(record, name)};
  }

 private:
  Tensor label(const ImageRecord& record, const std::string& name) const {
    if (options_.float_labels)
      return Tensor::from(record.labels, {static_cast<std::int64_t>(record.labels.size())});
    if (record.labels.size() != 1)
      throw Corrupt("{}: has {} labels, expected one", name, record.labels.size());
    const float value = record.labels[0];
    if (!(std::abs(value) < 1e9F) || value != std::floor(value))
      throw Corrupt("{}: label {}, expected a whole number", name, value);
    const auto number = static_cast<std::int64_t>(value);
    if (options_.classes > 0 && (number < 0 || number >= options_.classes))
      throw Corrupt("{}: label {}, expected 0 to {}", name, number, options_.classes - 1);
    return Tensor::from(std::vector<std::int64_t>{number}, {});
  }

  RecordFile file_;
  std::vector<std::uint64_t> offsets_;
  ImageRecordOptions options_;
};

RecordKey parse_index_line(std::string_view line, const std::string& path, std::size_t number) {
  RecordKey key{};
  const char* end = line.data() + line.size();
  const auto first = std::from_chars(line.data(), end, key.key);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == '\t') {
    const auto second = std::from_chars(first.ptr + 1, end, key.offset);
    if (second.ec == std::errc() && second.ptr == end) return key;
  }
  throw Corrupt("{}:{}: '{}', expected a key, a tab and an offset", path, number, line);
}

// Entries [begin, end) of the index.
std::vector<std::uint64_t> indexed_offsets(const std::string& index, const RecordFile& file,
                                           const ImageRecordOptions& options) {
  const std::vector<RecordKey> keys = read_record_index(index);
  const auto count = static_cast<std::int64_t>(keys.size());
  std::vector<std::uint64_t> offsets;
  for (std::int64_t i = count * options.part / options.parts;
       i < count * (options.part + 1) / options.parts; ++i) {
    offsets.push_back(keys[static_cast<std::size_t>(i)].offset);
    if (offsets.back() >= file.size())
      throw Corrupt("{}:{}: offset {}, {} has {} bytes", index, i + 1, offsets.back(), file.path(),
                    file.size());
  }
  return offsets;
}

}  // namespace

std::vector<RecordKey> read_record_index(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<RecordKey> keys;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (!line.empty()) keys.push_back(parse_index_line(line, path, number));
    at = end + 1;
  }
  return keys;
}

std::string pack_image_record(const ImageRecord& record) {
  if (record.labels.empty()) throw InvalidArgument("record: an image needs a label");
  const bool single = record.labels.size() == 1;
  std::string bytes;
  detail::append_little_endian(
      bytes, single ? std::uint32_t{0} : static_cast<std::uint32_t>(record.labels.size()));
  detail::append_little_endian(bytes,
                               std::bit_cast<std::uint32_t>(single ? record.labels[0] : 0.0F));
  detail::append_little_endian(bytes, record.id);
  detail::append_little_endian(bytes, record.second_id);
  if (!single)
    for (const float label : record.labels)
      detail::append_little_endian(bytes, std::bit_cast<std::uint32_t>(label));
  return bytes + record.image;
}

ImageRecord unpack_image_record(std::string_view bytes, const std::string& name) {
  if (bytes.size() < kHeaderBytes)
    throw Corrupt("{}: has {} bytes, an image's header has {}", name, bytes.size(), kHeaderBytes);
  const std::uint64_t labels = detail::little_endian<std::uint32_t>(bytes);
  if (labels * 4 > bytes.size() - kHeaderBytes)
    throw Corrupt("{}: says {} labels, which do not fit into its {} bytes", name, labels,
                  bytes.size());
  ImageRecord record{{},
                     detail::little_endian<std::uint64_t>(bytes.substr(8)),
                     detail::little_endian<std::uint64_t>(bytes.substr(16)),
                     {}};
  if (labels == 0) record.labels.push_back(parse_float(bytes.substr(4)));
  for (std::uint64_t i = 0; i < labels; ++i)
    record.labels.push_back(parse_float(bytes.substr(kHeaderBytes + 4 * i)));
  record.image = bytes.substr(kHeaderBytes + 4 * labels);
  return record;
}

DatasetPtr read_image_records(const std::string& path, const std::string& index,
                              const ImageRecordOptions& options) {
  RecordFile file = RecordFile::open(path);
  if (options.parts < 1 || options.part < 0 || options.part >= options.parts)
    throw InvalidArgument("{}: record: part {} of {}", path, options.part, options.parts);
  std::vector<std::uint64_t> offsets = index.empty() ? file.offsets(options.part, options.parts)
                                                     : indexed_offsets(index, file, options);
  return std::make_shared<ImageRecords>(std::move(file), std::move(offsets), options);
}

}  // namespace lockstep::data
