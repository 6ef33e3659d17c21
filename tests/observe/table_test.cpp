// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/table.h"

#include <gtest/gtest.h>

#include "tests/message.h"

namespace lockstep::observe {
namespace {

TEST(Table, AlignsItsColumns) {
  Table table({{"recipe"}, {"parameters", Align::kRight}, {"data"}});
  table.add({"mnist-mlp", "101,770", "MNIST"});
  table.add({"naïve", "7", ""});
  EXPECT_EQ(table.str(),
            "recipe     parameters  data\n"
            "mnist-mlp     101,770  MNIST\n"
            "naïve               7\n");
}

TEST(Table, WithoutTitlesHasNoLineOfThem) {
  Table table({{}, {}});
  table.add({"a", "b"});
  EXPECT_EQ(table.str(), "a  b\n");
}

TEST(Table, ARowOfAnotherLengthIsRefused) {
  Table table({{"a"}, {"b"}});
  EXPECT_EQ(lockstep::testing::message_of([&] { table.add({"1"}); }),
            "table: a row has 1 cells, expected 2");
}

}  // namespace
}  // namespace lockstep::observe
