// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

bool is_gzip(std::string_view bytes);

// The contents of a gzip file of one or more members. Throws Corrupt that begins with `name` when
// the bytes are damaged, end early or inflate to more than `limit` bytes; `whose` says who set it.
std::string gunzip(std::string_view bytes, const std::string& name, std::size_t limit,
                   std::string_view whose = {});
// The first `count` bytes of the contents, or all when there are fewer.
std::string gunzip_begin(std::string_view bytes, const std::string& name, std::size_t count);

// A few bytes of gzip can inflate to a thousand times as many: the most that readers of data take
// when nobody says otherwise.
inline constexpr std::int64_t kMaxInflated = std::int64_t{1} << 30;

// A file's contents, inflated when it is gzip, whatever its name says. More than `max_inflated`
// bytes are Corrupt; what is not gzip has any size. `whose` says who set the limit.
std::string read_plain_or_gzip(const std::string& path, std::int64_t max_inflated = kMaxInflated,
                               std::string_view whose = "which is max_inflated");

}  // namespace lockstep
