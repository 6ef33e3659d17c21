// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <regex>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::testing {

// What numpy.save writes for row-major float32, float64 and int64 arrays: all that the dumps
// contain.
inline Tensor read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char prefix[10];
  if (!file.read(prefix, sizeof prefix)) throw IoError("{}: cannot be read", path);
  const auto length =
      static_cast<unsigned char>(prefix[8]) + 256U * static_cast<unsigned char>(prefix[9]);
  std::string header(length, ' ');
  file.read(header.data(), static_cast<std::streamsize>(length));
  std::smatch found;
  const std::regex form(R"('descr': '<(f4|f8|i8)', 'fortran_order': False, 'shape': \(([^)]*)\))");
  if (!std::regex_search(header, found, form)) throw Corrupt("{}: header {}", path, header);
  Shape shape;
  const std::string sizes = found[2];
  const std::regex number("[0-9]+");
  for (std::sregex_iterator it(sizes.begin(), sizes.end(), number), end; it != end; ++it)
    shape.push_back(std::stoll(it->str()));
  const DType dtype = found[1] == "f4"   ? DType::float32
                      : found[1] == "f8" ? DType::float64
                                         : DType::int64;
  const Tensor tensor = Tensor::empty(shape, dtype);
  const auto bytes = static_cast<std::streamsize>(tensor.info().bytes());
  if (!file.read(reinterpret_cast<char*>(tensor.raw()), bytes)) throw Corrupt("{}: short", path);
  return tensor;
}

}  // namespace lockstep::testing
