// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string_view>

#include "lockstep/data/csv.h"

using lockstep::data::CsvLabel;

// A CSV file of any bytes gives a set or a typed error, whatever its labels are taken for.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const CsvLabel label : {CsvLabel::none, CsvLabel::integer, CsvLabel::number, CsvLabel::name})
    try {
      lockstep::data::parse_csv_set(text, "input", {.header = size % 2 == 0, .label = label});
    } catch (const lockstep::Error&) {
    }
  return 0;
}
