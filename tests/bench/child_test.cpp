// SPDX-License-Identifier: Apache-2.0
#include "bench/child.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Child, LinesGoInAndComeOut) {
  Child cat({"cat"});
  cat.write_line("one");
  EXPECT_EQ(cat.read_line(seconds(10)), "one");
  cat.write_line("two");
  EXPECT_EQ(cat.read_line(seconds(10)), "two");
}

TEST(Child, TheEndOfItsOutputIsNothing) {
  Child echo({"echo", "last"});
  EXPECT_EQ(echo.read_line(seconds(10)), "last");
  EXPECT_EQ(echo.read_line(seconds(10)), std::nullopt);
}

TEST(Child, SilencePastTheDeadlineIsAnError) {
  Child cat({"cat"});
  EXPECT_THROW(cat.read_line(milliseconds(20)), IoError);
}

TEST(Child, AProgramThatIsNotThereIsAnErrorThatNamesIt) {
  try {
    Child missing({"/no/such/program"});
    FAIL();
  } catch (const NotFound& error) {
    EXPECT_STREQ(error.what(), "/no/such/program: there is no such program");
  }
}

TEST(Child, OneThatDoesNotListenIsEndedAnyway) {
  const auto start = std::chrono::steady_clock::now();
  { Child sleeper({"sleep", "60"}); }
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
}

TEST(Child, WritingToOneThatHasGoneIsAnError) {
  Child gone({"true"});
  EXPECT_EQ(gone.read_line(seconds(10)), std::nullopt);
  EXPECT_THROW(gone.write_line("hello"), IoError);
}

}  // namespace
}  // namespace lockstep::bench
