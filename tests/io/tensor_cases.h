// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/io/archive.h"
#include "tests/message.h"
#include "tests/temporary_folder.h"

namespace lockstep::io::testing {

using lockstep::testing::message_of;

// Bytes that no rounding gives back by chance: every dtype, with and without axes and elements.
inline std::vector<NamedTensor> tensors_of_every_kind(bool with_empty = true) {
  std::vector<NamedTensor> tensors;
  std::vector<Shape> shapes{Shape{3}, Shape{2, 3}, Shape{1, 2, 1, 5}};
  if (with_empty) shapes.insert(shapes.end(), {Shape{}, Shape{0}, Shape{5, 0, 4}});
  for (int i = 0; i < kDTypeCount; ++i)
    for (const Shape& shape : shapes) {
      const Tensor tensor = Tensor::zeros(shape, static_cast<DType>(i));
      for (std::size_t k = 0; k < tensor.info().bytes(); ++k)
        tensor.raw()[k] = tensor.dtype() == DType::boolean
                              ? static_cast<std::byte>(k % 2)
                              : static_cast<std::byte>(0x81 + 37 * k + static_cast<std::size_t>(i));
      tensors.emplace_back(fmt::format("{}.{}", name_of(tensor.dtype()), shape.str()), tensor);
    }
  return tensors;
}

inline void expect_same_bits(const Tensor& got, const Tensor& want, const std::string& name) {
  ASSERT_EQ(got.info(), want.info()) << name;
  if (want.numel() == 0) return;
  const Tensor a = got.contiguous(), b = want.contiguous();
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), b.info().bytes()), 0) << name;
}

// By name: formats have orders of their own.
inline void expect_same_bits(const std::vector<NamedTensor>& got,
                             const std::vector<NamedTensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    const auto found = std::find_if(got.begin(), got.end(),
                                    [&](const NamedTensor& named) { return named.first == name; });
    ASSERT_NE(found, got.end()) << name;
    expect_same_bits(found->second, tensor, name);
  }
}

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  std::string bytes;
  for (const T value : values) bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}
inline std::string i32(std::int32_t value) { return bytes_of({value}); }
inline std::string u32(std::uint32_t value) { return bytes_of({value}); }
inline std::string u64(std::uint64_t value) { return bytes_of({value}); }

// Without write_file's wait for the disk: tests write many.
inline void write_quickly(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A file of any bytes, and what `read` says of it, without its name.
template <class Read>
std::string complaint(const std::string& path, const std::string& bytes, Read&& read) {
  write_quickly(path, bytes);
  const std::string text = message_of<Error>([&] { read(path); });
  return text.starts_with(path) ? text.substr(path.size()) : text;
}

}  // namespace lockstep::io::testing
