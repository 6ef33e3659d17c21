// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text/encode.h"

namespace lockstep::data {

Vocabulary build_vocabulary(std::span<const std::string> texts, const Tokenizer& tokenizer,
                            const VocabularyOptions& options) {
  TokenCounts counts;
  for (const std::string& text : texts) count_tokens(tokenizer.tokens(text), counts);
  return Vocabulary::build(counts, options);
}

TokenNumbers encode_text(std::string_view text, const Tokenizer& tokenizer,
                         const Vocabulary& vocabulary) {
  return vocabulary.encode(tokenizer.tokens(text));
}

std::vector<TokenNumbers> encode_texts(std::span<const std::string> texts,
                                       const Tokenizer& tokenizer, const Vocabulary& vocabulary) {
  std::vector<TokenNumbers> result;
  result.reserve(texts.size());
  for (const std::string& text : texts) result.push_back(encode_text(text, tokenizer, vocabulary));
  return result;
}

std::string decode_text(std::span<const std::int64_t> numbers, const Tokenizer& tokenizer,
                        const Vocabulary& vocabulary) {
  return tokenizer.text(vocabulary.decode(numbers));
}

std::pair<TokenNumbers, TokenNumbers> split_tokens(std::span<const std::int64_t> tokens,
                                                   double part) {
  if (!(part >= 0.0 && part <= 1.0))
    throw InvalidArgument("text: part is {}, expected 0 to 1", part);
  const auto cut = static_cast<std::ptrdiff_t>(static_cast<double>(tokens.size()) * part);
  return {{tokens.begin(), tokens.begin() + cut}, {tokens.begin() + cut, tokens.end()}};
}

}  // namespace lockstep::data
