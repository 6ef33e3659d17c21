// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::testing {

// A protobuf message taken apart by its wire format alone, with no schema: an independent reader.
class WireMessage {
 public:
  explicit WireMessage(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::uint64_t key = take_varint(bytes);
      fields_[static_cast<int>(key >> 3)].push_back(take_value(bytes, key & 7));
    }
  }
  bool has(int field) const { return fields_.count(field) > 0; }
  std::size_t count(int field) const { return has(field) ? fields_.at(field).size() : 0; }
  const std::string& bytes(int field, std::size_t i = 0) const { return fields_.at(field).at(i); }
  WireMessage message(int field, std::size_t i = 0) const { return WireMessage(bytes(field, i)); }
  template <class T>  // of a fixed size, or a varint that was kept in eight bytes
  T number(int field) const {
    T value;
    if (bytes(field).size() < sizeof value) throw std::runtime_error("wire: a short number");
    std::memcpy(&value, bytes(field).data(), sizeof value);
    return value;
  }
  std::vector<double> packed_doubles(int field) const {
    std::vector<double> values(bytes(field).size() / sizeof(double));
    std::memcpy(values.data(), bytes(field).data(), values.size() * sizeof(double));
    return values;
  }

 private:
  static std::uint64_t take_varint(std::string_view& from) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(from, 1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    throw std::runtime_error("wire: a varint without an end");
  }
  static std::string take(std::string_view& from, std::size_t size) {
    if (from.size() < size) throw std::runtime_error("wire: cut off");
    std::string taken(from.substr(0, size));
    from.remove_prefix(size);
    return taken;
  }
  static std::string take_value(std::string_view& from, std::uint64_t type) {
    if (type == 1) return take(from, 8);
    if (type == 5) return take(from, 4);
    if (type != 0 && type != 2) throw std::runtime_error("wire: unknown type");
    const std::uint64_t value = take_varint(from);
    if (type == 2) return take(from, value);
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  }

  std::map<int, std::vector<std::string>> fields_;
};

}  // namespace lockstep::testing
