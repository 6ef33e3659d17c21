// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text/encode.h"

#include <gtest/gtest.h>

#include "tests/message.h"

namespace lockstep::data {
namespace {

const std::vector<std::string> kTexts = {"Buy now, buy!", "See you now"};

TEST(EncodeText, TakesTextsToNumbersAndBack) {
  const TokenizerPtr words = word_tokenizer();
  const Vocabulary vocabulary = build_vocabulary(kTexts, *words);
  EXPECT_EQ(vocabulary.token(4), "buy");
  EXPECT_EQ(vocabulary.token(5), "now");
  const std::vector<TokenNumbers> numbers = encode_texts(kTexts, *words, vocabulary);
  EXPECT_EQ(numbers[1], encode_text("SEE you now", *words, vocabulary));
  EXPECT_EQ(decode_text(numbers[0], *words, vocabulary), "buy now , buy !");
  EXPECT_EQ(encode_text("buy gold", *words, vocabulary), (TokenNumbers{4, 0}));
}

TEST(EncodeText, CharactersComeBackAsTheyWere) {
  const TokenizerPtr characters = character_tokenizer();
  const Vocabulary vocabulary = build_vocabulary(kTexts, *characters, {.reserved = {"<unk>"}});
  const TokenNumbers numbers = encode_text(kTexts[0], *characters, vocabulary);
  EXPECT_EQ(decode_text(numbers, *characters, vocabulary), kTexts[0]);
}

TEST(SplitTokens, HoldsOutTheEnd) {
  const TokenNumbers tokens{1, 2, 3, 4, 5};
  const auto [first, rest] = split_tokens(tokens, 0.8);
  EXPECT_EQ(first, (TokenNumbers{1, 2, 3, 4}));
  EXPECT_EQ(rest, (TokenNumbers{5}));
  EXPECT_EQ(split_tokens(tokens, 1.0).second, TokenNumbers{});
  EXPECT_EQ(lockstep::testing::message_of([&] { split_tokens(tokens, 1.5); }),
            "text: part is 1.5, expected 0 to 1");
}

}  // namespace
}  // namespace lockstep::data
