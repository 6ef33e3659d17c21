// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "lockstep/data/text/sequences.h"
#include "lockstep/data/text/tokenizer.h"
#include "lockstep/data/text/vocabulary.h"

namespace lockstep::data {

// From texts to the numbers that a net reads.

Vocabulary build_vocabulary(std::span<const std::string> texts, const Tokenizer& tokenizer,
                            const VocabularyOptions& options = {});
TokenNumbers encode_text(std::string_view text, const Tokenizer& tokenizer,
                         const Vocabulary& vocabulary);
std::vector<TokenNumbers> encode_texts(std::span<const std::string> texts,
                                       const Tokenizer& tokenizer, const Vocabulary& vocabulary);
std::string decode_text(std::span<const std::int64_t> numbers, const Tokenizer& tokenizer,
                        const Vocabulary& vocabulary);

// The first `part` (0 to 1) of the tokens, and the rest: what is trained on and what is held out.
std::pair<TokenNumbers, TokenNumbers> split_tokens(std::span<const std::int64_t> tokens,
                                                   double part);

}  // namespace lockstep::data
