// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/base/error.h"

// How requests and replies become bytes. A message is a struct whose visit() lists its fields; the
// same list writes and reads. Numbers are little-endian; texts and lists begin with their length.
namespace lockstep::kvstore::wire {

struct AnyVisitor {
  void operator()(auto&... fields);
};

template <class T>
concept Message = requires(T& message, AnyVisitor& visitor) {
  message.visit(visitor);
};

class Writer {
 public:
  template <class... Fields>
  void operator()(Fields&... fields) {
    (put(fields), ...);
  }
  std::string bytes;

 private:
  template <class T>
  requires std::is_arithmetic_v<T>
  void put(const T& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes += text;
  }
  template <class T>
  void put(std::vector<T>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    for (T& item : list) put(item);
  }
  template <Message T>
  void put(T& message) {
    message.visit(*this);
  }
};

// Never makes more than it has read: who lies about a length has told it nothing.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <class... Fields>
  void operator()(Fields&... fields) {
    (take(fields), ...);
  }
  void finish() const {
    if (!rest_.empty()) throw Corrupt("message: {} bytes too many", rest_.size());
  }

 private:
  std::string_view take_bytes(std::size_t count) {
    if (count > rest_.size())
      throw Corrupt("message: {} bytes are left, expected {}", rest_.size(), count);
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void take(T& value) { std::memcpy(&value, take_bytes(sizeof value).data(), sizeof value); }
  void take(bool& value) {
    std::uint8_t byte = 0;
    take(byte);
    if (byte > 1) throw Corrupt("message: {} is neither yes nor no", byte);
    value = byte == 1;
  }
  void take(std::string& text) {
    std::uint32_t length = 0;
    take(length);
    text = take_bytes(length);
  }
  template <class T>
  void take(std::vector<T>& list) {
    std::uint32_t length = 0;
    take(length);
    list.clear();
    for (std::uint32_t i = 0; i < length; ++i) take(list.emplace_back());
  }
  template <Message T>
  void take(T& message) {
    message.visit(*this);
  }

  std::string_view rest_;
};

template <Message T>
std::string encode(T message) {
  Writer writer;
  message.visit(writer);
  return std::move(writer.bytes);
}

// Throws Corrupt.
template <Message T>
T decode(std::string_view bytes) {
  T message;
  Reader reader(bytes);
  message.visit(reader);
  reader.finish();
  return message;
}

}  // namespace lockstep::kvstore::wire
