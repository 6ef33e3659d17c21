// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/text/tokenizer.h"
#include "lockstep/data/text/vocabulary.h"
#include "lockstep/recipes/recipe.h"

namespace lockstep::recipes {

// How a text recipe turns text into the numbers its net reads, and back. Made from the training
// texts, kept with the run.
class TextCodec {
 public:
  // The recipe's own tokens; `texts` decide which of them are known.
  TextCodec(const Recipe& recipe, std::span<const std::string> texts);
  TextCodec(const Recipe& recipe, data::Vocabulary vocabulary);

  // Words of a mail's subject and body (recipes/mail_text.h): as many numbers as the net reads,
  // cut, or filled up in front. Characters: one for each.
  std::vector<std::int64_t> encode(std::string_view text) const;
  std::string decode(std::span<const std::int64_t> numbers) const;
  const data::Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Task task_;
  data::TokenizerPtr tokenizer_;
  data::Vocabulary vocabulary_;
  std::int64_t length_;  // 0: as long as the text
};

using TextCodecPtr = std::shared_ptr<const TextCodec>;

}  // namespace lockstep::recipes
