// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "lockstep/base/crc32c.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host_name.h"
#include "lockstep/base/unix_time.h"
#include "lockstep/observe/detail/append.h"
#include "lockstep/observe/event.pb.h"

// A record is framed as TFRecord does it: length (64 bits), masked CRC of the length, the bytes,
// masked CRC of the bytes; little-endian.
namespace lockstep::observe {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr const char* kVersion = "brain.Event:2";
constexpr int kMostFiles = 1000;
constexpr std::size_t kHeader = 12, kFooter = 4;

// A checksum that is stored beside what it sums would be a weak sum of both, hence the mask.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u;
}

template <class T>
void append_raw(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T read_raw(std::string_view from, std::size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

std::string frame(std::string_view record) {
  std::string framed;
  append_raw(framed, static_cast<std::uint64_t>(record.size()));
  append_raw(framed, masked_crc(framed));
  framed += record;
  append_raw(framed, masked_crc(record));
  return framed;
}

std::string host_name() {
  const std::string name = own_host_name();
  return name.empty() ? "localhost" : name;
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw IoError("{}: cannot create: {}", folder, error.message());
}

// A name that is free: TensorBoard reads a folder's files in the order of their names.
std::pair<std::string, int> open_new(const std::string& folder, double seconds) {
  const std::string stem = fmt::format("{}/events.out.tfevents.{}.{}.{}", folder,
                                       static_cast<std::int64_t>(seconds), host_name(), ::getpid());
  std::string path;
  for (int number = 0; number < kMostFiles; ++number) {
    path = fmt::format("{}.{}", stem, number);
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (descriptor >= 0) return {path, descriptor};
    if (errno != EEXIST) break;
  }
  throw IoError("{}: cannot create: {}", path, std::strerror(errno));
}

events::Event event_at(double wall_time, std::int64_t step) {
  events::Event event;
  event.set_wall_time(wall_time);
  event.set_step(step);
  return event;
}

// Protobuf holds text to be UTF-8 and says so on standard error; a tag that is not is made so.
std::string as_utf8(std::string_view tag) {
  std::string text(tag);
  for (char& c : text)
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  return text;
}

events::Summary::Value* add_value(events::Event& event, std::string_view tag) {
  events::Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(as_utf8(tag));
  return value;
}

}  // namespace

EventWriter::EventWriter(const std::string& folder, std::int64_t first_step, Clock clock)
    : clock_(clock ? std::move(clock) : unix_seconds) {
  make_folder(folder);
  std::tie(path_, descriptor_) = open_new(folder, clock_());
  try {
    events::Event version = event_at(clock_(), 0);
    version.set_file_version(kVersion);
    append(version.SerializeAsString());
    events::Event start = event_at(clock_(), first_step);
    start.mutable_session_log()->set_status(events::SessionLog::START);
    append(start.SerializeAsString());
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

EventWriter::EventWriter(EventWriter&& other) noexcept
    : clock_(std::move(other.clock_)),
      path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

EventWriter::~EventWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void EventWriter::scalar(std::string_view tag, std::int64_t step, double value) {
  events::Event event = event_at(clock_(), step);
  add_value(event, tag)->set_simple_value(static_cast<float>(value));
  append(event.SerializeAsString());
}

void EventWriter::image(std::string_view tag, std::int64_t step, const EventImage& image) {
  events::Event event = event_at(clock_(), step);
  events::Summary::Image* to = add_value(event, tag)->mutable_image();
  to->set_width(image.width);
  to->set_height(image.height);
  to->set_colorspace(image.channels);
  to->set_encoded_image_string(image.png.data(), image.png.size());
  append(event.SerializeAsString());
}

void EventWriter::histogram(std::string_view tag, std::int64_t step, const Histogram& histogram) {
  events::Event event = event_at(clock_(), step);
  events::Histogram* to = add_value(event, tag)->mutable_histo();
  to->set_min(histogram.min());
  to->set_max(histogram.max());
  to->set_num(static_cast<double>(histogram.count()));
  to->set_sum(histogram.sum());
  to->set_sum_squares(histogram.sum_squares());
  for (const Histogram::Bucket& bucket : histogram.buckets()) {
    to->add_bucket_limit(bucket.limit);
    to->add_bucket(bucket.count);
  }
  append(event.SerializeAsString());
}

void EventWriter::histogram(std::string_view tag, std::int64_t step,
                            std::span<const float> values) {
  Histogram counts;
  counts.add(values);
  histogram(tag, step, counts);
}

void EventWriter::text(std::string_view tag, std::int64_t step, std::string_view text) {
  events::Event event = event_at(clock_(), step);
  events::Summary::Value* value = add_value(event, tag);
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  events::Tensor* tensor = value->mutable_tensor();
  tensor->set_dtype(events::Tensor::STRING);
  tensor->mutable_tensor_shape()->add_dim()->set_size(1);
  tensor->add_string_val(text.data(), text.size());
  append(event.SerializeAsString());
}

void EventWriter::append(std::string_view record) {
  append_whole(descriptor_, size_, frame(record), path_);
}

std::vector<std::string> read_records(const std::string& path) {
  const std::string bytes = read_file(path);
  std::vector<std::string> records;
  const auto expect = [&](bool good, const char* what, std::size_t at) {
    if (!good) throw Corrupt("{}: record {} at byte {} {}", path, records.size(), at, what);
  };
  for (std::size_t at = 0; at < bytes.size();) {
    const std::string_view rest = std::string_view(bytes).substr(at);
    expect(rest.size() >= kHeader, "is cut off", at);
    expect(read_raw<std::uint32_t>(rest, 8) == masked_crc(rest.substr(0, 8)),
           "has a wrong checksum of its length", at);
    const auto length = read_raw<std::uint64_t>(rest, 0);
    expect(length <= rest.size() && rest.size() - length >= kHeader + kFooter, "is cut off", at);
    const std::string_view record = rest.substr(kHeader, length);
    expect(read_raw<std::uint32_t>(rest, kHeader + length) == masked_crc(record),
           "has a wrong checksum", at);
    records.emplace_back(record);
    at += kHeader + length + kFooter;
  }
  return records;
}

}  // namespace lockstep::observe
