// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text/tokenizer.h"

#include <gtest/gtest.h>

namespace lockstep::data {
namespace {

using Tokens = std::vector<std::string>;

TEST(CharacterTokenizer, CutsAtCodePoints) {
  EXPECT_EQ(character_tokenizer()->tokens("aé€😀\n"), (Tokens{"a", "é", "€", "😀", "\n"}));
  EXPECT_EQ(character_tokenizer()->tokens(""), Tokens{});
}

TEST(CharacterTokenizer, BytesThatAreNoUtf8StandAlone) {
  // A stray continuation, a cut sequence, a form longer than needed, a surrogate, a number too
  // large.
  for (const std::string bad : {"\x80", "\xe2\x82", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                "\xff", "\xe0\x80\x80"}) {
    const Tokens tokens = character_tokenizer()->tokens("a" + bad + "b");
    EXPECT_EQ(tokens.size(), bad.size() + 2);
    EXPECT_EQ(character_tokenizer()->text(tokens), "a" + bad + "b");
  }
}

TEST(ByteTokenizer, GivesEveryByte) {
  EXPECT_EQ(byte_tokenizer()->tokens("é!"), (Tokens{"\xc3", "\xa9", "!"}));
  EXPECT_EQ(byte_tokenizer()->text(Tokens{"\xc3", "\xa9"}), "é");
}

TEST(WordTokenizer, LowersLettersAndPartsMarks) {
  EXPECT_EQ(word_tokenizer()->tokens("Call me  Ishmael.\n(Some years ago!)"),
            (Tokens{"call", "me", "ishmael", ".", "(", "some", "years", "ago", "!", ")"}));
  EXPECT_EQ(word_tokenizer()->tokens(" \t\n"), Tokens{});
}

TEST(WordTokenizer, MarksInsideWordsAndNumbersStay) {
  EXPECT_EQ(word_tokenizer()->tokens("Don't pay $3.50, 'now'."),
            (Tokens{"don't", "pay", "$", "3.50", ",", "'", "now", "'", "."}));
}

TEST(WordTokenizer, KnowsLettersAndSpacesBeyondAscii) {
  EXPECT_EQ(word_tokenizer()->tokens("ÉCOLE×ÜBER\xc2\xa0ΣΟΦΙΑ МОСКВА Ё — “да”"),
            (Tokens{"école×über", "σοφια", "москва", "ё", "—", "“", "да", "”"}));
}

TEST(WordTokenizer, DoesOnlyWhatItIsTold) {
  EXPECT_EQ(word_tokenizer({.lower_case = false})->tokens("Hi You!"), (Tokens{"Hi", "You", "!"}));
  EXPECT_EQ(word_tokenizer({.split_punctuation = false})->tokens("Hi You!"),
            (Tokens{"hi", "you!"}));
  EXPECT_EQ(word_tokenizer()->text(Tokens{"hi", "you", "!"}), "hi you !");
}

TEST(WordTokenizer, TakesAnyBytes) {
  EXPECT_EQ(word_tokenizer()->tokens("A\xff B\xc3"), (Tokens{"a\xff", "b\xc3"}));
}

}  // namespace
}  // namespace lockstep::data
