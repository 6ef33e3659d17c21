// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/ratings.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using lockstep::testing::message_of;
using Numbers = std::vector<std::int64_t>;

std::string complaint(const std::string& text, const RatingsOptions& options = {}) {
  return message_of<Corrupt>([&] { parse_ratings(text, "r.csv", options); });
}

TEST(Ratings, OfMovieLensFilesAreReadAsTheyAre) {
  for (const char* text : {"196\t242\t3\t881250949\n186\t302\t4\t891717742\n196\t302\t1\t0\n",
                           "196::242::3::881250949\n186::302::4::891717742\n196::302::1::0",
                           "userId,movieId,rating,timestamp\r\n196,242,3.0,881250949\r\n"
                           "186,302,4.0,891717742\r\n\r\n196,302,1,0\r\n",
                           "196 242  3 881250949\n186 302 4 891717742\n 196 302 1 0\n",
                           "timestamp;Rating;\"Movie-ID\";User_Id\n881250949;3;242;\"196\"\n"
                           "891717742;4;302;186\n0;1;302;196\n"}) {
    const Ratings ratings = parse_ratings(text, "r");
    EXPECT_EQ(ratings.users.names(), (std::vector<std::string>{"196", "186"})) << text;
    EXPECT_EQ(ratings.items.names(), (std::vector<std::string>{"242", "302"})) << text;
    EXPECT_EQ(ratings.user, (Numbers{0, 1, 0})) << text;
    EXPECT_EQ(ratings.item, (Numbers{0, 1, 1})) << text;
    EXPECT_EQ(ratings.value, (std::vector<float>{3, 4, 1})) << text;
    EXPECT_EQ(ratings.time, (Numbers{881250949, 891717742, 0})) << text;
  }
}

TEST(Ratings, IdsAreAnyTextsAndTimesMayBeMissing) {
  const Ratings ratings = parse_ratings("ann,the whale,4.5\nbob,the whale,-2\n", "r");
  EXPECT_EQ(ratings.users.find("bob"), 1);
  EXPECT_EQ(ratings.users.find("carl"), std::nullopt);
  EXPECT_EQ(ratings.items.names(), (std::vector<std::string>{"the whale"}));
  EXPECT_FALSE(ratings.has_time());
}

TEST(Ratings, WhatSeparatesColumnsMayStandInsideOfQuotes) {
  const std::vector<std::string> items = {"Whale, The", "The \"Big\" one", "a;b::c", "7\" single"};
  for (const std::string separator : {",", ";", "\t", "::", " "}) {
    std::string text;
    for (const char* item :
         {"\"Whale, The\"", "\"The \"\"Big\"\" one\"", "\"a;b::c\"", "\"7\"\" single\""})
      text += fmt::format("\"ann\"{0}{1}{0}4{0}\"0\"\n", separator, item);
    const Ratings ratings = parse_ratings(text, "r");
    EXPECT_EQ(ratings.items.names(), items) << separator;
    EXPECT_EQ(ratings.users.names(), std::vector<std::string>{"ann"}) << separator;
    EXPECT_TRUE(ratings.has_time());
  }
}

TEST(Ratings, AQuoteThatIsNotClosedIsPartOfTheText) {
  EXPECT_EQ(parse_ratings("\"ann,7\" disc,3\n", "r").items.names(),
            std::vector<std::string>{"7\" disc"});
  EXPECT_EQ(parse_ratings("\"ann,7,3\nbob,7,3\n", "r").users.names(),
            (std::vector<std::string>{"\"ann", "bob"}));
}

TEST(Ratings, OfABadLineTheFileTheLineAndTheReasonAreTold) {
  EXPECT_EQ(complaint(""),
            "r.csv: has no ratings, expected lines of user, item, rating and perhaps a time");
  EXPECT_EQ(complaint("userId,movieId,rating\n"),
            "r.csv: has no ratings, expected lines of user, item, rating and perhaps a time");
  EXPECT_EQ(complaint("5\n6\n"),
            "r.csv:1: has 1 column, expected user, item, rating and perhaps a time");
  EXPECT_EQ(complaint("1,2,3\n1,3\n"),
            "r.csv:2: has 2 columns, expected user, item, rating and perhaps a time");
  EXPECT_EQ(complaint("1,2,3\n1,3,4,5\n"),
            "r.csv:2: has 4 columns, expected 3 as the first line has");
  EXPECT_EQ(complaint("1,2,good\n"), "r.csv:1: the rating is 'good', expected a number");
  EXPECT_EQ(complaint("1,2,3\n\n1,3,nan\n"), "r.csv:3: the rating is 'nan', expected a number");
  EXPECT_EQ(complaint("1,2,inf\n"), "r.csv:1: the rating is 'inf', expected a number");
  EXPECT_EQ(complaint("1,2,1e99\n"), "r.csv:1: the rating is '1e99', expected a number");
  EXPECT_EQ(complaint("1,,3\n"), "r.csv:1: the item is empty");
  EXPECT_EQ(complaint("1,2,3,May\n"), "r.csv:1: the time is 'May', expected seconds since 1970");
  EXPECT_EQ(complaint("1,2,3\n1,3,3\n1,2,4\n"),
            "r.csv:3: user 1 has rated item 2 before, in line 1");
}

TEST(Ratings, BadLinesAreLeftOutWhereThatIsAskedFor) {
  std::vector<std::string> warnings;
  RatingsOptions options{.skip_bad = true};
  options.warn = [&](const std::string& line) { warnings.push_back(line); };
  const Ratings ratings = parse_ratings("1,2,3\n9,2,x\n1,2,5\n1,4,5\n", "r", options);
  EXPECT_EQ(ratings.users.names(), (std::vector<std::string>{"1"}));
  EXPECT_EQ(ratings.value, (std::vector<float>{3, 5}));
  EXPECT_EQ(ratings.line, (Numbers{1, 4}));
  EXPECT_EQ(warnings, (std::vector<std::string>{
                          "r:2: the rating is 'x', expected a number; it is left out",
                          "r:3: user 1 has rated item 2 before, in line 1; it is left out"}));
}

TEST(Ratings, OfARunAreOfItsUsersAndItems) {
  const Ratings known = parse_ratings("a,x,1\nb,y,2\n", "r");
  const RatingsOptions options{.users = &known.users, .items = &known.items};
  EXPECT_EQ(parse_ratings("b,x,1\n", "r", options).user, (Numbers{1}));
  EXPECT_EQ(complaint("b,x,1\nc,x,1\n", options), "r.csv:2: user 'c' was never trained on");
  EXPECT_EQ(complaint("b,z,1\n", options), "r.csv:1: item 'z' was never trained on");
}

TEST(Ratings, PairsNeedNoRating) {
  const RatingsOptions pairs{.ratings = false};
  const Ratings ratings = parse_ratings("user,item\n7,8\n7,8\n", "p", pairs);
  EXPECT_EQ(ratings.size(), 2U);
  EXPECT_TRUE(ratings.value.empty());
  EXPECT_EQ(parse_ratings("user1 item2\n", "p", pairs).size(), 1U);
  EXPECT_EQ(complaint("7\n", pairs), "r.csv:1: has 1 column, expected a user and an item");
  EXPECT_EQ(complaint("\n", pairs), "r.csv: has no pairs, expected lines of a user and an item");
}

}  // namespace
}  // namespace lockstep::data
