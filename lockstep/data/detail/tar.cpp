// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/detail/tar.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include "lockstep/base/error.h"

namespace lockstep::data::detail {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kChecksumAt = 148;

// A field of a header: up to its first zero byte.
std::string_view field(std::string_view header, std::size_t at, std::size_t length) {
  const std::string_view whole = header.substr(at, length);
  return whole.substr(0, whole.find('\0'));
}

std::optional<std::uint64_t> parse_number(std::string_view text, int base) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The sum of the header's bytes, its own field taken as spaces.
std::uint64_t checksum(std::string_view header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i)
    sum += i >= kChecksumAt && i < kChecksumAt + 8 ? ' ' : static_cast<std::uint8_t>(header[i]);
  return sum;
}

std::string path_of(std::string_view header) {
  const std::string path(field(header, 0, 100));
  const std::string_view prefix = field(header, 345, 155);
  const bool ustar = header.substr(257, 5) == "ustar";
  return ustar && !prefix.empty() ? std::string(prefix) + "/" + path : path;
}

// The path of a pax header: records "LENGTH KEY=VALUE\n", LENGTH that of the whole record.
std::string pax_path(std::string_view records) {
  while (!records.empty()) {
    const std::size_t space = records.find(' ');
    const auto length = parse_number(records.substr(0, space), 10);
    if (space == std::string_view::npos || !length || *length <= space + 1 ||
        *length > records.size())
      return {};
    const std::string_view record = records.substr(space + 1, *length - space - 2);
    if (record.starts_with("path=")) return std::string(record.substr(5));
    records.remove_prefix(*length);
  }
  return {};
}

class Parser {
 public:
  Parser(std::string_view bytes, const std::string& name) : rest_(bytes), name_(name) {}

  std::vector<TarFile> all() {
    while (!rest_.empty() && rest_[0] != '\0') entry();
    return std::move(files_);
  }

 private:
  std::string_view take(std::uint64_t length, const char* what) {
    if (length > rest_.size())
      throw Corrupt("{}: tar: ends within {}: {} bytes are missing", name_, what,
                    length - rest_.size());
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return taken;
  }

  void entry() {
    const std::string_view header = take(kBlock, "a header");
    if (parse_number(field(header, kChecksumAt, 8), 8) != checksum(header))
      throw Corrupt("{}: tar: the header of file {} has a wrong checksum", name_, files_.size());
    const auto size = parse_number(field(header, 124, 12), 8);
    if (!size) throw Corrupt("{}: tar: the header of file {} has no size", name_, files_.size());
    const std::string path = path_of(header);
    const std::string_view contents = take(*size, "a file");
    rest_.remove_prefix(std::min(rest_.size(), (kBlock - *size % kBlock) % kBlock));
    keep(header[156], path, contents);
  }

  void keep(char type, const std::string& path, std::string_view contents) {
    if (type == 'x') long_path_ = pax_path(contents);
    if (type == 'L') long_path_ = std::string(field(contents, 0, contents.size()));
    if (type == 'x' || type == 'L' || type == 'g') return;
    if (type == '0' || type == '\0')
      files_.push_back({long_path_.empty() ? path : long_path_, contents});
    long_path_.clear();
  }

  std::string_view rest_;
  const std::string& name_;
  std::string long_path_;  // of the next file
  std::vector<TarFile> files_;
};

}  // namespace

std::vector<TarFile> parse_tar(std::string_view bytes, const std::string& name) {
  return Parser(bytes, name).all();
}

}  // namespace lockstep::data::detail
