// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::data::detail {

// A token of one byte-pair encoding is never longer: a word that is, is cut.
inline constexpr std::size_t kMaxWord = 1024;

// The text in pieces: a run of letters and digits, of marks, or of white space; the first two with
// the one space before them.
std::vector<std::string_view> split_words(std::string_view text);

inline std::uint64_t pair_key(std::int64_t first, std::int64_t second) {
  return (static_cast<std::uint64_t>(first) << 32) | static_cast<std::uint64_t>(second);
}

using TokenPair = std::pair<std::int64_t, std::int64_t>;

// Puts `token` in the place of each `pair`, from the left.
void join_pair(std::vector<std::int64_t>& tokens, const TokenPair& pair, std::int64_t token);

// The merges that training makes: `count`, or fewer when no pair is there twice any more.
std::vector<TokenPair> train_merges(std::string_view corpus, std::int64_t count);

}  // namespace lockstep::data::detail
