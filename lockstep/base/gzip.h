// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

bool is_gzip(std::string_view bytes);

// The contents of a gzip file of one or more members. Throws Corrupt that begins with `name` when
// the bytes are damaged, end early or inflate to more than `limit` bytes.
std::string gunzip(std::string_view bytes, const std::string& name, std::size_t limit);

// A file's contents, inflated when it is gzip, whatever its name says.
std::string read_plain_or_gzip(const std::string& path, std::size_t limit = std::size_t{4} << 30);

}  // namespace lockstep
