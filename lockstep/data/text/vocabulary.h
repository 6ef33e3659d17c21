// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lockstep::data {

using TokenCounts = std::unordered_map<std::string, std::int64_t>;

// Adds each token's number to `counts`.
void count_tokens(std::span<const std::string> tokens, TokenCounts& counts);

inline constexpr const char* kUnknown = "<unk>";
inline constexpr const char* kPadding = "<pad>";
inline constexpr const char* kBegin = "<bos>";
inline constexpr const char* kEnd = "<eos>";

struct VocabularyOptions {
  std::int64_t min_frequency = 1;
  std::int64_t max_size = 0;  // with the reserved ones; 0: no limit
  std::vector<std::string> reserved = {kUnknown, kPadding, kBegin, kEnd};  // the first numbers
};

// Tokens and their numbers, 0 to size - 1.
class Vocabulary {
 public:
  // A token's number is its place. Throws InvalidArgument when one is there twice.
  explicit Vocabulary(std::vector<std::string> tokens);
  // The reserved ones, then by frequency; those of the same in the order of their bytes.
  static Vocabulary build(const TokenCounts& counts, const VocabularyOptions& options = {});

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  bool contains(std::string_view token) const { return numbers_.contains(token); }
  // <unk>'s number for a token that is not there; without an <unk> it throws NotFound.
  std::int64_t number(std::string_view token) const;
  // Throws InvalidArgument when there is no such number.
  const std::string& token(std::int64_t number) const;
  std::vector<std::int64_t> encode(std::span<const std::string> tokens) const;
  std::vector<std::string> decode(std::span<const std::int64_t> numbers) const;
  const std::vector<std::string>& tokens() const { return tokens_; }

  // A line for each token after one that says how many, line breaks and backslashes escaped.
  std::string format() const;
  // Throws Corrupt that begins with `name` and the line.
  static Vocabulary parse(std::string_view text, const std::string& name);
  void save(const std::string& path) const;
  static Vocabulary load(const std::string& path);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> numbers_;
};

}  // namespace lockstep::data
