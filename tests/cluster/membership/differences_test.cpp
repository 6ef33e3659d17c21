// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/membership/detail/differences.h"

#include <gtest/gtest.h>

namespace lockstep::cluster::detail {
namespace {

TEST(Differences, ItemsAreNamedByTheirPaths) {
  EXPECT_EQ(differences(R"({"seed": 1, "learning": {"optimizer": "adam", "rate": 0.1}})",
                        R"({"seed": 1, "learning": {"optimizer": "sgd", "rate": 0.1}})"),
            "learning.optimizer is \"adam\", not \"sgd\"");
}

TEST(Differences, AnItemThatOnlyOneHasIsMissingInTheOther) {
  EXPECT_EQ(differences(R"({"a": {}, "b": 1})", R"({"a": {"momentum": 0.9}})"),
            "a.momentum is missing, not 0.9; b is 1, not missing");
}

TEST(Differences, ManyItemsAreCounted) {
  EXPECT_EQ(differences(R"({"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1})", "{}"),
            "a is 1, not missing; b is 1, not missing; c is 1, not missing; d is 1, not missing; "
            "e is 1, not missing; and 2 more");
}

TEST(Differences, OtherTextsAreOneShortLine) {
  EXPECT_EQ(differences("decaf\nhot", "c0ffee"), "it is decaf hot, not c0ffee");
  EXPECT_EQ(differences(std::string(1000, 'x'), "{}"),
            "it is " + std::string(80, 'x') + "..., not {}");
}

}  // namespace
}  // namespace lockstep::cluster::detail
