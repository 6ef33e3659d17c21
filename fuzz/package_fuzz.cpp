// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/gzip.h"
#include "lockstep/data/detail/tar.h"

namespace {

void check(std::string_view archive) {
  std::size_t bytes = 0;
  for (const lockstep::data::detail::TarFile& file :
       lockstep::data::detail::parse_tar(archive, "input"))
    bytes += file.contents.size();
  if (bytes > archive.size()) __builtin_trap();
}

}  // namespace

// A package of any bytes, as tar or as gzip of it, gives files or a typed error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    check(lockstep::is_gzip(bytes) ? lockstep::gunzip(bytes, "input", 1 << 20)
                                   : std::string(bytes));
  } catch (const lockstep::Error&) {
  }
  return 0;
}
