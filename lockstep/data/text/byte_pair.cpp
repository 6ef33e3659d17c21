// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text/byte_pair.h"

#include <limits>

#include "lockstep/base/file.h"
#include "lockstep/data/detail/lines.h"
#include "lockstep/data/detail/words.h"

namespace lockstep::data {

namespace {

constexpr const char* kKind = "lockstep-byte-pairs";
constexpr std::int64_t kMaxSize = 1 << 24;

BytePairEncoding::Merge read_merge(detail::Lines& lines) {
  const std::string_view line = lines.next();
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) lines.fail("expected two token numbers");
  const auto first = detail::whole_number(line.substr(0, space));
  const auto second = detail::whole_number(line.substr(space + 1));
  if (!first || !second) lines.fail("expected two token numbers");
  return {*first, *second};
}

}  // namespace

BytePairEncoding::BytePairEncoding(std::vector<Merge> merges) {
  for (int byte = 0; byte < 256; ++byte) bytes_.emplace_back(1, static_cast<char>(byte));
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::string fault = add(merges[i]);
    if (!fault.empty()) throw InvalidArgument("byte pairs: merge {}: {}", i, fault);
  }
}

// What is wrong with the merge; empty when it was added.
std::string BytePairEncoding::add(const Merge& merge) {
  const auto [first, second] = merge;
  if (first < 0 || second < 0 || first >= size() || second >= size())
    return fmt::format("joins tokens {} and {}, there are {} before it", first, second, size());
  std::string bytes =
      bytes_[static_cast<std::size_t>(first)] + bytes_[static_cast<std::size_t>(second)];
  if (bytes.size() > detail::kMaxWord)
    return fmt::format("makes a token of {} bytes, expected up to {}", bytes.size(),
                       detail::kMaxWord);
  if (!joined_.emplace(detail::pair_key(first, second), size()).second)
    return fmt::format("joins tokens {} and {} again", first, second);
  merges_.push_back(merge);
  bytes_.push_back(std::move(bytes));
  return {};
}

BytePairEncoding BytePairEncoding::train(std::string_view corpus, std::int64_t size) {
  if (size < 256 || size > kMaxSize)
    throw InvalidArgument("byte pairs: size is {}, expected 256 to {}", size, kMaxSize);
  return BytePairEncoding(detail::train_merges(corpus, size - 256));
}

// Joins the pair that was learnt first, again and again.
void BytePairEncoding::encode_word(std::string_view word, std::vector<std::int64_t>& result) const {
  std::vector<std::int64_t> parts;
  for (char byte : word) parts.push_back(static_cast<std::uint8_t>(byte));
  while (true) {
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = joined_.find(detail::pair_key(parts[i], parts[i + 1]));
      if (found != joined_.end()) best = std::min(best, found->second);
    }
    if (best == std::numeric_limits<std::int64_t>::max()) break;
    detail::join_pair(parts, merges_[static_cast<std::size_t>(best - 256)], best);
  }
  result.insert(result.end(), parts.begin(), parts.end());
}

std::vector<std::int64_t> BytePairEncoding::encode(std::string_view text) const {
  std::vector<std::int64_t> result;
  for (std::string_view word : detail::split_words(text)) encode_word(word, result);
  return result;
}

std::string BytePairEncoding::decode(std::span<const std::int64_t> numbers) const {
  std::string text;
  for (std::int64_t number : numbers) {
    if (number < 0 || number >= size())
      throw InvalidArgument("byte pairs: there is no token {}, expected 0 to {}", number,
                            size() - 1);
    text += bytes_[static_cast<std::size_t>(number)];
  }
  return text;
}

std::vector<std::string> BytePairEncoding::tokens(std::string_view text) const {
  std::vector<std::string> result;
  for (std::int64_t number : encode(text))
    result.push_back(bytes_[static_cast<std::size_t>(number)]);
  return result;
}

std::string BytePairEncoding::format() const {
  std::string text = fmt::format("{} 1 {}\n", kKind, merges_.size());
  for (const auto& [first, second] : merges_) text += fmt::format("{} {}\n", first, second);
  return text;
}

BytePairEncoding BytePairEncoding::parse(std::string_view text, const std::string& name) {
  detail::Lines lines(text, name);
  const std::int64_t count = detail::read_header(lines, kKind);
  BytePairEncoding result;
  while (static_cast<std::int64_t>(result.merges_.size()) < count) {
    const std::string fault = result.add(read_merge(lines));
    if (!fault.empty()) lines.fail(fault);
  }
  if (lines.more()) lines.fail(fmt::format("more lines follow the last of {} merges", count));
  return result;
}

void BytePairEncoding::save(const std::string& path) const { write_file(path, format()); }

BytePairEncoding BytePairEncoding::load(const std::string& path) {
  return parse(read_file(path), path);
}

}  // namespace lockstep::data
