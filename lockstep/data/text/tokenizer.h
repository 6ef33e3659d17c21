// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

// Cuts text into tokens. Const calls may come from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::vector<std::string> tokens(std::string_view text) const = 0;
  // A text of these tokens: the very one they were cut from, except for words.
  virtual std::string text(std::span<const std::string> tokens) const;
};

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// Unicode code points. Bytes that are no UTF-8 stand alone.
TokenizerPtr character_tokenizer();
TokenizerPtr byte_tokenizer();

struct WordOptions {
  bool lower_case = true;  // Latin, Greek and Cyrillic letters
  // Each mark becomes a token, but not one between letters or digits: "don't", "3.5".
  bool split_punctuation = true;
};

// What white space parts; joined by single spaces.
TokenizerPtr word_tokenizer(const WordOptions& options = {});

// The length of the UTF-8 character that `text` begins with; 1 when it begins with none, 0 at the
// end.
std::size_t character_length(std::string_view text);

}  // namespace lockstep::data
