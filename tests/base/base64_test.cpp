// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/base64.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

// RFC 4648's own examples.
TEST(Base64, HasTheStandardsCodes) {
  EXPECT_EQ(to_base64(""), "");
  EXPECT_EQ(to_base64("f"), "Zg==");
  EXPECT_EQ(to_base64("fo"), "Zm8=");
  EXPECT_EQ(to_base64("foo"), "Zm9v");
  EXPECT_EQ(to_base64("foob"), "Zm9vYg==");
  EXPECT_EQ(to_base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(to_base64("\xFF\xFE\xFD"), "//79");
}

TEST(Base64, IsReadBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
    bytes += static_cast<char>(i);
  }
}

TEST(Base64, WhatIsNoneIsCorrupt) {
  EXPECT_THROW(from_base64("Zg="), Corrupt);
  EXPECT_THROW(from_base64("Zg*="), Corrupt);
  EXPECT_THROW(from_base64("Z==="), Corrupt);
}

}  // namespace
}  // namespace lockstep
