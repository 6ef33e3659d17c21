// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recipes/mail_text.h"

#include <gtest/gtest.h>

namespace lockstep::recipes {
namespace {

TEST(MailText, HeadersLeaveTheirSubjectAlone) {
  EXPECT_EQ(readable_text("From a@b Sat Sep 14\nReceived: from c\n\tby d\nSubject: Hello\n"
                          "To: e\n\nDear <b>friend</b>"),
            " Hello\nDear  friend ");
}

TEST(MailText, TextWithoutHeadersIsAllBody) {
  EXPECT_EQ(readable_text("win money now\n\nSubject: x"), "win money now\n\nSubject: x");
  EXPECT_EQ(readable_text("a < b and <i>c</i>"), "a < b and  c ");
  EXPECT_EQ(readable_text("Note: buy milk\n"), "Note: buy milk\n");
  EXPECT_EQ(readable_text(""), "");
}

TEST(MailText, LinesMayEndAsMailsDo) {
  EXPECT_EQ(readable_text("From: a\r\nSubject: b\r\n\r\nc"), " b\r\nc");
}

TEST(MailText, MarksAloneTellNothing) {
  EXPECT_TRUE(is_telling("don't"));
  EXPECT_TRUE(is_telling("$"));
  EXPECT_TRUE(is_telling("é"));
  EXPECT_FALSE(is_telling("--"));
  EXPECT_FALSE(is_telling(","));
}

}  // namespace
}  // namespace lockstep::recipes
