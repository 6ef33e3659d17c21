// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The structures by which array libraries exchange memory (DLPack, version 0): their layout is the
// protocol.
namespace lockstep::python::dlpack {

inline constexpr std::int32_t kCpu = 1;

enum Code : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBFloat = 4, kBool = 6 };

struct Device {
  std::int32_t kind;
  std::int32_t index;
};

struct ElementType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Array {
  void* data;
  Device device;
  std::int32_t rank;
  ElementType type;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};

struct ManagedArray {
  Array array;
  void* context;
  void (*release)(ManagedArray* self);
};

}  // namespace lockstep::python::dlpack
