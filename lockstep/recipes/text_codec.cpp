// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/text_codec.h"

#include "lockstep/data/text/sequences.h"
#include "lockstep/recipes/mail_text.h"

namespace lockstep::recipes {
namespace {

data::TokenizerPtr tokenizer_of(const Recipe& recipe) {
  return recipe.task == Task::texts ? data::word_tokenizer() : data::character_tokenizer();
}

// What the net is told of a text.
std::vector<std::string> tokens_of(const data::Tokenizer& tokenizer, Task task,
                                   std::string_view text) {
  if (task != Task::texts) return tokenizer.tokens(text);
  std::vector<std::string> tokens = tokenizer.tokens(readable_text(text));
  std::erase_if(tokens, [](const std::string& token) { return !is_telling(token); });
  return tokens;
}

// Padding first: number 0 is what an empty place holds.
data::Vocabulary build_vocabulary(const Recipe& recipe, std::span<const std::string> texts) {
  const data::TokenizerPtr tokenizer = tokenizer_of(recipe);
  data::TokenCounts counts;
  for (const std::string& text : texts)
    data::count_tokens(tokens_of(*tokenizer, recipe.task, text), counts);
  return data::Vocabulary::build(
      counts, {.max_size = recipe.input_range, .reserved = {data::kPadding, data::kUnknown}});
}

}  // namespace

TextCodec::TextCodec(const Recipe& recipe, std::span<const std::string> texts)
    : TextCodec(recipe, build_vocabulary(recipe, texts)) {}

TextCodec::TextCodec(const Recipe& recipe, data::Vocabulary vocabulary)
    : task_(recipe.task),
      tokenizer_(tokenizer_of(recipe)),
      vocabulary_(std::move(vocabulary)),
      length_(recipe.task == Task::texts ? recipe.sample_shape[0] : 0) {}

// Filled up in front, so that a recurrent net ends on the text and not on padding.
std::vector<std::int64_t> TextCodec::encode(std::string_view text) const {
  const std::vector<std::int64_t> numbers = vocabulary_.encode(tokens_of(*tokenizer_, task_, text));
  if (length_ == 0) return numbers;
  return data::fit_length(numbers, length_, vocabulary_.number(data::kPadding),
                          data::PadSide::begin);
}

// A net may name a number that no token has.
std::string TextCodec::decode(std::span<const std::int64_t> numbers) const {
  std::vector<std::string> tokens;
  for (const std::int64_t number : numbers) {
    const bool known = number > 1 && number < vocabulary_.size();
    tokens.push_back(known ? vocabulary_.token(number) : "\uFFFD");
  }
  return tokenizer_->text(tokens);
}

}  // namespace lockstep::recipes
