// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "lockstep/base/error.h"

namespace lockstep::io::detail {

// A file that is read at any place. Every read is checked against its size; what is beyond is
// Corrupt.
class InputFile {
 public:
  // Throws NotFound or IoError.
  explicit InputFile(const std::string& path);
  // Bytes as if they were a file of this name; they outlive it.
  InputFile(std::string name, std::string_view bytes);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  // `count` is checked before there is room for it.
  std::string text_at(std::uint64_t offset, std::uint64_t count) const;

  template <class... A>
  [[noreturn]] void fail(fmt::format_string<A...> format, A&&... args) const {
    throw Corrupt("{}: {}", path_, fmt::format(format, std::forward<A>(args)...));
  }

 private:
  std::string path_;
  int fd_ = -1;
  std::string_view bytes_;  // where there is no fd_
  std::uint64_t size_ = 0;
};

// Reads a file from its begin to its end; numbers are little-endian.
class FileCursor {
 public:
  explicit FileCursor(const InputFile& file) : file_(file) {}

  std::uint64_t left() const { return file_.size() - at_; }
  void read(std::span<std::byte> bytes) {
    file_.read_at(at_, bytes);
    at_ += bytes.size();
  }
  std::string text(std::uint64_t count) {
    std::string result = file_.text_at(at_, count);
    at_ += count;
    return result;
  }
  template <class T>
  T number() {
    static_assert(std::is_integral_v<T>);
    T value{};
    read(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

 private:
  const InputFile& file_;
  std::uint64_t at_ = 0;
};

// A little-endian number in bytes that hold it; the caller has checked that they do.
template <class T>
T number_in(std::string_view bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace lockstep::io::detail
