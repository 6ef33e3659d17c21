// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/gzip.h"

#include <gtest/gtest.h>

#include "tests/data/files.h"
#include "tests/data/gzipped.h"
#include "tests/message.h"

namespace lockstep {
namespace {

using testing::gzipped;
using testing::message_of;

constexpr std::size_t kLimit = 1 << 24;

std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < 1'500'000; ++i) text += std::to_string(i % 10007 * 7919 % 10007);
  return text;
}

TEST(Gzip, InflatesWhatWasDeflated) {
  for (const std::string& text : {std::string(), std::string("a"), long_text()})
    EXPECT_EQ(gunzip(gzipped(text), "x", kLimit), text);
}

TEST(Gzip, MembersFollowOneAnother) {
  EXPECT_EQ(gunzip(gzipped("one ") + gzipped("two"), "x", kLimit), "one two");
}

TEST(Gzip, ZerosAfterTheEndArePadding) {
  EXPECT_EQ(gunzip(gzipped("one") + std::string(100, '\0'), "x", kLimit), "one");
}

TEST(Gzip, OtherBytesAfterTheEndAreCorrupt) {
  EXPECT_EQ(message_of<Corrupt>([] { gunzip(gzipped("one") + "two", "x", kLimit); }),
            "x: gzip: 3 bytes that are not gzip follow its end");
}

TEST(Gzip, EveryPrefixIsCorrupt) {
  const std::string whole = gzipped("hello, hello, hello");
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(gunzip(whole.substr(0, length), "x", kLimit), Corrupt) << length;
  EXPECT_EQ(message_of<Corrupt>([&] { gunzip(whole.substr(0, 10), "x", kLimit); }),
            "x: gzip: ends early, after 0 bytes of contents");
}

TEST(Gzip, AWrongChecksumIsCorrupt) {
  std::string whole = gzipped("hello");
  whole[whole.size() - 8] ^= 1;
  EXPECT_EQ(message_of<Corrupt>([&] { gunzip(whole, "x", kLimit); }),
            "x: gzip: incorrect data check");
}

TEST(Gzip, WhatInflatesBeyondTheLimitIsCorrupt) {
  EXPECT_EQ(message_of<Corrupt>([] { gunzip(gzipped(std::string(5000, 'a')), "x", 1000); }),
            "x: gzip: inflates to more than 1000 bytes");
}

TEST(Gzip, PlainBytesAreRefused) {
  EXPECT_EQ(message_of<Corrupt>([] { gunzip("hello", "x", kLimit); }),
            "x: gzip: does not begin with the bytes 1f 8b");
}

TEST(Gzip, AFileIsInflatedWhateverItsNameSays) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(read_plain_or_gzip(folder.write("a.txt", gzipped("hello"))), "hello");
  EXPECT_EQ(read_plain_or_gzip(folder.write("b.gz", "hello")), "hello");
  EXPECT_THROW(read_plain_or_gzip(folder.path("c")), NotFound);
  const std::string large = folder.write("d.gz", gzipped(std::string(2000, 'x')));
  EXPECT_EQ(message_of<Corrupt>([&] { read_plain_or_gzip(large, 1999); }),
            large + ": gzip: inflates to more than 1999 bytes, which is max_inflated");
  EXPECT_EQ(read_plain_or_gzip(large, 2000).size(), 2000u);
}

}  // namespace
}  // namespace lockstep
