// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/text/byte_pair.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "lockstep/data/detail/words.h"
#include "lockstep/tensor/philox.h"
#include "tests/message.h"
#include "tests/seed.h"

namespace lockstep::data {
namespace {

using lockstep::testing::message_of;
using Merges = std::vector<BytePairEncoding::Merge>;
using Tokens = std::vector<std::string>;

TEST(BytePairs, WordsBeginWithTheirSpace) {
  const auto words = detail::split_words("The whale,  Moby\n\nDick 42! ");
  EXPECT_EQ(Tokens(words.begin(), words.end()),
            (Tokens{"The", " whale", ",", " ", " Moby", "\n\n", "Dick", " 42", "!", " "}));
}

// "low low low lower lowest": lo 5, ow 5, " l" 4, we 2, ...; lo and ow tie, l (108) is the smaller.
TEST(BytePairs, MergesAreThoseFoundByHand) {
  const auto pairs = BytePairEncoding::train("low low low lower lowest", 260);
  EXPECT_EQ(pairs.merges(), (Merges{{'l', 'o'}, {256, 'w'}, {' ', 257}, {258, 'e'}}));
  EXPECT_EQ(pairs.tokens("lower low"), (Tokens{"low", "e", "r", " low"}));
  EXPECT_EQ(pairs.encode("lower low"), (std::vector<std::int64_t>{257, 'e', 'r', 258}));
}

TEST(BytePairs, EncodingJoinsWhatWasLearntFirst) {
  const BytePairEncoding first_ab(Merges{{'a', 'b'}, {'b', 'c'}});
  const BytePairEncoding first_bc(Merges{{'b', 'c'}, {'a', 'b'}});
  EXPECT_EQ(first_ab.tokens("abc"), (Tokens{"ab", "c"}));
  EXPECT_EQ(first_bc.tokens("abc"), (Tokens{"a", "bc"}));
}

TEST(BytePairs, TrainingStopsWhenNoPairIsThereTwice) {
  EXPECT_EQ(BytePairEncoding::train("abcdef", 300).size(), 256);
  EXPECT_EQ(BytePairEncoding::train("", 300).size(), 256);
}

TEST(BytePairs, RunsOfOneLetterJoinFromTheLeft) {
  const auto pairs = BytePairEncoding::train("aaaa aaaa", 258);
  EXPECT_EQ(pairs.merges(), (Merges{{'a', 'a'}, {256, 256}}));
  EXPECT_EQ(pairs.tokens("aaaaaaa"), (Tokens{"aaaa", "aa", "a"}));
}

std::string random_text(std::uint64_t seed, std::size_t length) {
  std::string text;
  for (std::size_t i = 0; i < length; ++i) text += "abcde  .\n"[random_bits({seed}, i) % 9];
  return text;
}

// Counts all pairs of all words again for each merge.
Merges naive_merges(const std::string& corpus, std::size_t count) {
  std::vector<std::vector<std::int64_t>> words;
  for (std::string_view word : detail::split_words(corpus))
    words.emplace_back(word.begin(), word.end());
  Merges merges;
  while (merges.size() < count) {
    std::map<BytePairEncoding::Merge, int> counts;
    for (const auto& word : words)
      for (std::size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
    int best = 1;
    BytePairEncoding::Merge merge;
    for (const auto& [pair, number] : counts)
      if (number > best) best = number, merge = pair;
    if (best < 2) break;
    for (auto& word : words)
      detail::join_pair(word, merge, static_cast<std::int64_t>(256 + merges.size()));
    merges.push_back(merge);
  }
  return merges;
}

TEST(BytePairs, TrainingGivesTheMergesOfCountingEverythingAgain) {
  const std::uint64_t seed = lockstep::testing::seed_of_this_run();
  for (std::uint64_t i = 0; i < 5; ++i) {
    const std::string text = random_text(seed + i, 2000);
    EXPECT_EQ(BytePairEncoding::train(text, 256 + 60).merges(), naive_merges(text, 60));
  }
}

TEST(BytePairs, EveryTextDecodesToItself) {
  const auto pairs = BytePairEncoding::train(random_text(1, 3000), 400);
  for (const std::string& text :
       {std::string(), std::string("  a  "), std::string("\xff\0é", 4), random_text(2, 500),
        std::string(5000, 'a'), std::string(3000, ' ') + "x"}) {
    EXPECT_EQ(pairs.decode(pairs.encode(text)), text);
    EXPECT_EQ(pairs.text(pairs.tokens(text)), text);
  }
}

TEST(BytePairs, ComeBackFromAFile) {
  const auto pairs = BytePairEncoding::train(random_text(1, 3000), 400);
  const std::string path = ::testing::TempDir() + "byte_pair_test.txt";
  pairs.save(path);
  const auto read = BytePairEncoding::load(path);
  std::filesystem::remove(path);
  EXPECT_EQ(read.merges(), pairs.merges());
  EXPECT_EQ(read.encode("abc de"), pairs.encode("abc de"));
}

std::string fault_of_pairs(const std::string& text) {
  return message_of<Corrupt>([&] { BytePairEncoding::parse(text, "p.txt"); });
}

TEST(BytePairs, ABadFileIsNamedWithItsLine) {
  EXPECT_EQ(fault_of_pairs("x\n"), "p.txt:1: got 'x', expected 'lockstep-byte-pairs 1 COUNT'");
  EXPECT_EQ(fault_of_pairs("lockstep-byte-pairs 1 1\n1 256\n"),
            "p.txt:2: joins tokens 1 and 256, there are 256 before it");
  EXPECT_EQ(fault_of_pairs("lockstep-byte-pairs 1 2\n1 2\n1 2\n"),
            "p.txt:3: joins tokens 1 and 2 again");
  EXPECT_EQ(fault_of_pairs("lockstep-byte-pairs 1 1\n1 x\n"),
            "p.txt:2: expected two token numbers");
  EXPECT_EQ(fault_of_pairs("lockstep-byte-pairs 1 1\n12\n"), "p.txt:2: expected two token numbers");
  EXPECT_EQ(fault_of_pairs("lockstep-byte-pairs 1 1\n1 2\n3 4\n"),
            "p.txt:2: more lines follow the last of 1 merges");
}

// Each line would double the token: 60 lines are more than any memory.
TEST(BytePairs, ASmallFileCannotMakeAHugeToken) {
  std::string text = "lockstep-byte-pairs 1 60\n1 1\n";
  for (int i = 0; i < 59; ++i) text += fmt::format("{0} {0}\n", 256 + i);
  EXPECT_EQ(fault_of_pairs(text), "p.txt:12: makes a token of 2048 bytes, expected up to 1024");
}

TEST(BytePairs, RefuseWrongNumbers) {
  EXPECT_EQ(message_of([] { BytePairEncoding::train("a", 255); }),
            "byte pairs: size is 255, expected 256 to 16777216");
  EXPECT_EQ(message_of([] { BytePairEncoding().decode(std::vector<std::int64_t>{256}); }),
            "byte pairs: there is no token 256, expected 0 to 255");
  EXPECT_EQ(message_of([] {
              BytePairEncoding(Merges{{1, 2}, {300, 1}});
            }),
            "byte pairs: merge 1: joins tokens 300 and 1, there are 257 before it");
}

}  // namespace
}  // namespace lockstep::data
