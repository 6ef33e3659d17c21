// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

// RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
TEST(Crc32c, HasTheStandardsSums) {
  std::string ascending, descending;
  for (int i = 0; i < 32; ++i) {
    ascending += static_cast<char>(i);
    descending += static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(crc32c(descending), 0x113FDB5Cu);
}

TEST(Crc32c, DoesNotDependOnHowTheBytesArrive) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i * 37);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::uint32_t head = crc32c(std::string_view(text).substr(0, cut));
    EXPECT_EQ(crc32c(std::string_view(text).substr(cut), head), crc32c(text)) << cut;
  }
}

}  // namespace
}  // namespace lockstep
