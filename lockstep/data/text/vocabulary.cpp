// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text/vocabulary.h"

#include <algorithm>

#include "lockstep/base/file.h"
#include "lockstep/data/detail/lines.h"

namespace lockstep::data {

namespace {

constexpr const char* kKind = "lockstep-vocabulary";

using Counted = std::pair<std::string, std::int64_t>;

// Frequent ones first. A total order, so that the map's own order never shows.
std::vector<Counted> by_frequency(const TokenCounts& counts) {
  std::vector<Counted> result(counts.begin(), counts.end());
  std::sort(result.begin(), result.end(), [](const Counted& a, const Counted& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return result;
}

std::string escaped(std::string_view token) {
  std::string result;
  for (char byte : token) {
    if (byte == '\\') {
      result += "\\\\";
    } else if (byte == '\n') {
      result += "\\n";
    } else if (byte == '\r') {
      result += "\\r";
    } else {
      result += byte;
    }
  }
  return result;
}

std::string unescaped(std::string_view line, const detail::Lines& lines) {
  std::string result;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      result += line[i];
      continue;
    }
    const char code = ++i < line.size() ? line[i] : ' ';
    if (code != '\\' && code != 'n' && code != 'r')
      lines.fail("a backslash is followed by neither \\, n nor r");
    result += code == 'n' ? '\n' : code == 'r' ? '\r' : '\\';
  }
  return result;
}

void check_options(const VocabularyOptions& options) {
  if (options.min_frequency < 1)
    throw InvalidArgument("vocabulary: min_frequency is {}, expected 1 or more",
                          options.min_frequency);
  const auto reserved = static_cast<std::int64_t>(options.reserved.size());
  if (options.max_size != 0 && options.max_size < reserved)
    throw InvalidArgument("vocabulary: max_size is {}, there are {} reserved tokens",
                          options.max_size, reserved);
}

}  // namespace

void count_tokens(std::span<const std::string> tokens, TokenCounts& counts) {
  for (const std::string& token : tokens) ++counts[token];
}

Vocabulary::Vocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const auto [at, is_new] = numbers_.emplace(tokens_[i], static_cast<std::int64_t>(i));
    if (!is_new)
      throw InvalidArgument("vocabulary: token '{}' has the numbers {} and {}", tokens_[i],
                            at->second, i);
  }
}

Vocabulary Vocabulary::build(const TokenCounts& counts, const VocabularyOptions& options) {
  check_options(options);
  std::vector<std::string> tokens = options.reserved;
  const auto limit = static_cast<std::size_t>(options.max_size);
  for (auto& [token, count] : by_frequency(counts)) {
    if (count < options.min_frequency || (limit != 0 && tokens.size() >= limit)) break;
    const auto& reserved = options.reserved;
    if (std::find(reserved.begin(), reserved.end(), token) == reserved.end())
      tokens.push_back(token);
  }
  return Vocabulary(std::move(tokens));
}

std::int64_t Vocabulary::number(std::string_view token) const {
  auto found = numbers_.find(token);
  if (found == numbers_.end()) found = numbers_.find(std::string_view(kUnknown));
  if (found == numbers_.end())
    throw NotFound("vocabulary: there is no token '{}', and no {} to stand for it", token,
                   kUnknown);
  return found->second;
}

const std::string& Vocabulary::token(std::int64_t number) const {
  if (number < 0 || number >= size())
    throw InvalidArgument("vocabulary: there is no token {}, expected 0 to {}", number, size() - 1);
  return tokens_[static_cast<std::size_t>(number)];
}

std::vector<std::int64_t> Vocabulary::encode(std::span<const std::string> tokens) const {
  std::vector<std::int64_t> result;
  result.reserve(tokens.size());
  for (const std::string& token : tokens) result.push_back(number(token));
  return result;
}

std::vector<std::string> Vocabulary::decode(std::span<const std::int64_t> numbers) const {
  std::vector<std::string> result;
  result.reserve(numbers.size());
  for (std::int64_t number : numbers) result.push_back(token(number));
  return result;
}

std::string Vocabulary::format() const {
  std::string text = fmt::format("{} 1 {}\n", kKind, size());
  for (const std::string& token : tokens_) text += escaped(token) + "\n";
  return text;
}

Vocabulary Vocabulary::parse(std::string_view text, const std::string& name) {
  detail::Lines lines(text, name);
  const std::int64_t count = detail::read_header(lines, kKind);
  std::vector<std::string> tokens;
  std::unordered_map<std::string, std::size_t> places;
  while (static_cast<std::int64_t>(tokens.size()) < count) {
    tokens.push_back(unescaped(lines.next(), lines));
    const auto [at, is_new] = places.emplace(tokens.back(), tokens.size() + 1);
    if (!is_new) lines.fail(fmt::format("the same token as on line {}", at->second));
  }
  if (lines.more()) lines.fail(fmt::format("more lines follow the last of {} tokens", count));
  return Vocabulary(std::move(tokens));
}

void Vocabulary::save(const std::string& path) const { write_file(path, format()); }

Vocabulary Vocabulary::load(const std::string& path) { return parse(read_file(path), path); }

}  // namespace lockstep::data
