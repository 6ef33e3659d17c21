// SPDX-License-Identifier: Apache-2.0
#include "tests/docs/op_page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace lockstep::testing {
namespace {

// The first line in which two texts differ, in both.
std::string first_difference(const std::string& page, const std::string& wanted) {
  std::istringstream a(page), b(wanted);
  std::string is, should;
  for (int line = 1;; ++line) {
    const bool more_a = static_cast<bool>(std::getline(a, is));
    const bool more_b = static_cast<bool>(std::getline(b, should));
    if (!more_a && !more_b) return "";
    if (!more_a) is = "(nothing)";
    if (!more_b) should = "(nothing)";
    if (is != should)
      return "line " + std::to_string(line) + " is\n  " + is + "\nand should be\n  " + should;
  }
}

TEST(OpPage, IsWhatTheCatalogueSays) {
  std::ifstream file(LOCKSTEP_OPS_MD);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(first_difference(text.str(), op_page()), "")
      << "docs/ops.md is not up to date: run `make docs`";
}

}  // namespace
}  // namespace lockstep::testing
