// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// How numbers are shown to people: the same in the progress bar, tables and the report.
namespace lockstep::observe {

// 5741.3 -> "5,741"; below 10 one decimal: "3.4".
std::string format_rate(double value);
// 1234567 -> "1,234,567".
std::string format_count(std::int64_t value);
// (1, "thread") -> "1 thread", (1200, "step") -> "1,200 steps".
std::string format_things(std::int64_t count, std::string_view what);
// 21 -> "0:21", 3725 -> "1:02:05".
std::string format_duration(double seconds);
// In powers of 1000: "812 B", "11.6 MB".
std::string format_bytes(double bytes);
// A loss or a metric, four digits or so: "0.0412", "12.345", "5,741", "3.10e-05", "nan".
std::string format_value(double value);

// Columns that UTF-8 text takes on a terminal, one for each code point.
std::size_t display_width(std::string_view text);
// At most `width` columns of it; what is cut off is shown by a final "~".
std::string fit_width(std::string_view text, std::size_t width);

}  // namespace lockstep::observe
