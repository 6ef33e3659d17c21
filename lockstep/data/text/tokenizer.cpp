// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text/tokenizer.h"

#include <cstdint>

namespace lockstep::data {

namespace {

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

// Bytes that the first one announces; 0 when it cannot begin a character.
std::size_t announced_length(std::uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

// The code point of a whole character of `length` bytes.
char32_t code_point(std::string_view text, std::size_t length) {
  constexpr std::uint8_t kFirstBits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  char32_t point = byte_at(text, 0) & kFirstBits[length];
  for (std::size_t i = 1; i < length; ++i) point = (point << 6) | (byte_at(text, i) & 0x3fu);
  return point;
}

// Not longer than needed, no surrogate, within Unicode.
bool is_sound(char32_t point, std::size_t length) {
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  return point >= kSmallest[length] && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
}

// The UTF-8 form of 0x80 to 0x7ff.
std::string two_bytes(char32_t point) {
  return {static_cast<char>(0xc0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3f))};
}

// The alphabets whose small letters are at a fixed distance, all of one or two bytes.
char32_t lower(char32_t point) {
  const auto within = [&](char32_t low, char32_t high) { return point >= low && point <= high; };
  if (within('A', 'Z')) return point + 32;
  if (within(0xc0, 0xde) && point != 0xd7) return point + 32;
  if (within(0x391, 0x3a9) || within(0x410, 0x42f)) return point + 32;
  return within(0x400, 0x40f) ? point + 80 : point;
}

bool is_space(char32_t point) {
  return point == ' ' || (point >= '\t' && point <= '\r') || point == 0xa0 || point == 0x3000 ||
         (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029;
}

bool is_mark(char32_t point) {
  if ((point >= 'a' && point <= 'z') || (point >= '0' && point <= '9')) return false;
  const auto within = [&](char32_t low, char32_t high) { return point >= low && point <= high; };
  return within('!', '/') || within(':', '@') || within('[', '`') || within('{', '~') ||
         within(0xa1, 0xbf) || within(0x2010, 0x205e) || within(0x3001, 0x3003);
}

struct Character {
  std::string_view bytes;  // empty at the text's end, which counts as a space
  char32_t point;          // 0xfffd for a byte that is no character
};

Character first_character(std::string_view text) {
  if (text.empty()) return {text, ' '};
  if (byte_at(text, 0) < 0x80) return {text.substr(0, 1), byte_at(text, 0)};
  const std::size_t length = character_length(text);
  return {text.substr(0, length), length == 1 ? U'\xfffd' : code_point(text, length)};
}

class CharacterTokenizer final : public Tokenizer {
 public:
  std::vector<std::string> tokens(std::string_view text) const override {
    std::vector<std::string> result;
    result.reserve(text.size());
    while (!text.empty()) {
      result.emplace_back(text.substr(0, character_length(text)));
      text.remove_prefix(result.back().size());
    }
    return result;
  }
};

class ByteTokenizer final : public Tokenizer {
 public:
  std::vector<std::string> tokens(std::string_view text) const override {
    std::vector<std::string> result;
    result.reserve(text.size());
    for (char byte : text) result.emplace_back(1, byte);
    return result;
  }
};

class WordTokenizer final : public Tokenizer {
 public:
  explicit WordTokenizer(const WordOptions& options) : options_(options) {}

  std::vector<std::string> tokens(std::string_view text) const override {
    std::vector<std::string> result;
    std::string word;
    const auto finish = [&] {
      if (!word.empty()) result.push_back(std::move(word));
      word.clear();
    };
    Character before{{}, ' '}, here = first_character(text);
    while (!here.bytes.empty()) {
      text.remove_prefix(here.bytes.size());
      const Character after = first_character(text);
      const bool alone = stands_alone(before.point, here.point, after.point);
      if (alone || is_space(here.point)) finish();
      if (!is_space(here.point)) append(here, word);
      if (alone) finish();
      before = here;
      here = after;
    }
    finish();
    return result;
  }

  std::string text(std::span<const std::string> tokens) const override {
    std::string result;
    for (const std::string& token : tokens) result += (result.empty() ? "" : " ") + token;
    return result;
  }

 private:
  // A mark, unless one of those that hold a word or a number together is between two parts of it.
  bool stands_alone(char32_t before, char32_t here, char32_t after) const {
    if (!options_.split_punctuation || !is_mark(here)) return false;
    const bool binds = here == '\'' || here == '.' || here == ',' || here == 0x2019;
    return !binds || !in_word(before) || !in_word(after);
  }
  static bool in_word(char32_t point) { return !is_space(point) && !is_mark(point); }

  void append(const Character& character, std::string& word) const {
    const char32_t small = options_.lower_case ? lower(character.point) : character.point;
    if (small < 0x80) {
      word += static_cast<char>(small);
    } else if (small == character.point) {
      word += character.bytes;
    } else {
      word += two_bytes(small);
    }
  }

  WordOptions options_;
};

}  // namespace

std::size_t character_length(std::string_view text) {
  if (text.empty()) return 0;
  const std::size_t length = announced_length(byte_at(text, 0));
  if (length == 0 || length > text.size()) return 1;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte_at(text, i) & 0xc0) != 0x80) return 1;
  return is_sound(code_point(text, length), length) ? length : 1;
}

std::string Tokenizer::text(std::span<const std::string> tokens) const {
  std::string result;
  for (const std::string& token : tokens) result += token;
  return result;
}

TokenizerPtr character_tokenizer() { return std::make_shared<CharacterTokenizer>(); }

TokenizerPtr byte_tokenizer() { return std::make_shared<ByteTokenizer>(); }

TokenizerPtr word_tokenizer(const WordOptions& options) {
  return std::make_shared<WordTokenizer>(options);
}

}  // namespace lockstep::data
