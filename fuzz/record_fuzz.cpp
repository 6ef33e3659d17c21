// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/record_io.h"

namespace {

using lockstep::data::RecordFile;

// Records and, where they are that, the images' headers in them.
void read_all(const RecordFile& file, std::int64_t part, std::int64_t parts) {
  for (const std::uint64_t offset : file.offsets(part, parts)) {
    const RecordFile::Record record = file.read(offset);
    if (record.bytes.size() > file.size() || record.next <= offset) __builtin_trap();
    lockstep::data::unpack_image_record(record.bytes, "record");
  }
}

}  // namespace

// A record file of any bytes gives records or a typed error, as a whole and in parts.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const RecordFile file =
      RecordFile::from_bytes({reinterpret_cast<const char*>(data), size}, "input");
  for (const std::int64_t parts : {1, 3})
    for (std::int64_t part = 0; part < parts; ++part) try {
        read_all(file, part, parts);
      } catch (const lockstep::Error&) {
      }
  return 0;
}
