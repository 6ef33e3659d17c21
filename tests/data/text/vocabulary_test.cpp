// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text/vocabulary.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/message.h"

namespace lockstep::data {
namespace {

using lockstep::testing::message_of;
using Tokens = std::vector<std::string>;
using Numbers = std::vector<std::int64_t>;

TokenCounts counts_of(const Tokens& tokens) {
  TokenCounts counts;
  count_tokens(tokens, counts);
  return counts;
}

const Tokens kText = {"b", "a", "c", "a", "d", "c", "a", "e"};

TEST(Vocabulary, OrdersByFrequencyAndThenByBytes) {
  const Vocabulary vocabulary = Vocabulary::build(counts_of(kText));
  EXPECT_EQ(vocabulary.tokens(),
            (Tokens{"<unk>", "<pad>", "<bos>", "<eos>", "a", "c", "b", "d", "e"}));
}

TEST(Vocabulary, LeavesOutRareTokensAndStopsAtItsSize) {
  EXPECT_EQ(Vocabulary::build(counts_of(kText), {.min_frequency = 2}).size(), 6);
  const Vocabulary small =
      Vocabulary::build(counts_of(kText), {.max_size = 3, .reserved = {"<unk>"}});
  EXPECT_EQ(small.tokens(), (Tokens{"<unk>", "a", "c"}));
}

TEST(Vocabulary, AReservedTokenInTheTextKeepsItsNumber) {
  EXPECT_EQ(Vocabulary::build(counts_of({"x", "<pad>"}), {.reserved = {"<unk>", "<pad>"}}).tokens(),
            (Tokens{"<unk>", "<pad>", "x"}));
}

TEST(Vocabulary, EncodesUnknownTokensAsSuchAndDecodes) {
  const Vocabulary vocabulary = Vocabulary::build(counts_of(kText));
  EXPECT_EQ(vocabulary.encode(Tokens{"c", "zebra", "a"}), (Numbers{5, 0, 4}));
  EXPECT_EQ(vocabulary.decode(Numbers{5, 0, 4}), (Tokens{"c", "<unk>", "a"}));
  EXPECT_TRUE(vocabulary.contains("c"));
  EXPECT_FALSE(vocabulary.contains("zebra"));
}

TEST(Vocabulary, SaysWhatItHasNot) {
  const Vocabulary vocabulary(Tokens{"a", "b"});
  EXPECT_EQ(message_of<NotFound>([&] { vocabulary.number("zebra"); }),
            "vocabulary: there is no token 'zebra', and no <unk> to stand for it");
  EXPECT_EQ(message_of([&] { vocabulary.token(2); }),
            "vocabulary: there is no token 2, expected 0 to 1");
  EXPECT_EQ(message_of([&] {
              Vocabulary(Tokens{"a", "b", "a"});
            }),
            "vocabulary: token 'a' has the numbers 0 and 2");
  EXPECT_EQ(message_of([&] { Vocabulary::build({}, {.max_size = 3}); }),
            "vocabulary: max_size is 3, there are 4 reserved tokens");
  EXPECT_EQ(message_of([&] { Vocabulary::build({}, {.min_frequency = 0}); }),
            "vocabulary: min_frequency is 0, expected 1 or more");
}

TEST(Vocabulary, EveryTokenComesBackFromAFile) {
  const Vocabulary vocabulary(
      Tokens{"<unk>", "a", "\n", "\\", "\\n", "", " ", "\r\n", "é", "\xff"});
  const std::string path = ::testing::TempDir() + "vocabulary_test.txt";
  vocabulary.save(path);
  EXPECT_EQ(Vocabulary::load(path).tokens(), vocabulary.tokens());
  std::filesystem::remove(path);
}

std::string fault_of_vocabulary(const std::string& text) {
  return message_of<Corrupt>([&] { Vocabulary::parse(text, "v.txt"); });
}

TEST(Vocabulary, ABadFileIsNamedWithItsLine) {
  EXPECT_EQ(fault_of_vocabulary(""), "v.txt:1: the file ends here, expected more lines");
  EXPECT_EQ(fault_of_vocabulary("hello\n"),
            "v.txt:1: got 'hello', expected 'lockstep-vocabulary 1 COUNT'");
  EXPECT_EQ(fault_of_vocabulary("lockstep-vocabulary 1 -3\n"),
            "v.txt:1: got 'lockstep-vocabulary 1 -3', expected 'lockstep-vocabulary 1 COUNT'");
  EXPECT_EQ(fault_of_vocabulary("lockstep-vocabulary 1 3\na\nb\n"),
            "v.txt:4: the file ends here, expected more lines");
  EXPECT_EQ(fault_of_vocabulary("lockstep-vocabulary 1 2\na\nb"),
            "v.txt:3: the file ends in the middle of this line");
  EXPECT_EQ(fault_of_vocabulary("lockstep-vocabulary 1 3\na\nb\na\n"),
            "v.txt:4: the same token as on line 2");
  EXPECT_EQ(fault_of_vocabulary("lockstep-vocabulary 1 1\na\\q\n"),
            "v.txt:2: a backslash is followed by neither \\, n nor r");
  EXPECT_EQ(fault_of_vocabulary("lockstep-vocabulary 1 1\na\nb\n"),
            "v.txt:2: more lines follow the last of 1 tokens");
  EXPECT_EQ(message_of<NotFound>([] { Vocabulary::load("/nowhere/v.txt"); }).substr(0, 14),
            "/nowhere/v.txt");
}

}  // namespace
}  // namespace lockstep::data
