// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/sha256.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// FIPS 180-4's own examples.
TEST(Sha256, HasTheStandardsSums) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesArrive) {
  const std::string text(300, 'x');
  for (std::size_t cut = 0; cut <= text.size(); cut += 7) {
    Sha256 sum;
    sum.update(std::string_view(text).substr(0, cut));
    sum.update(std::string_view(text).substr(cut));
    EXPECT_EQ(sum.hex(), sha256_hex(text));
  }
}

TEST(Sha256, OfManyLengthsIsAsLongAgo) {
  Sha256 all;
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    all.update(sha256_hex(bytes));
    bytes += static_cast<char>(i * 167 + i / 5);
  }
  EXPECT_EQ(all.hex(), "42d98725925182c12c2137129ee4a100e1556f297991a1ac8fbc6cf23d5ced1a");
}

}  // namespace
}  // namespace lockstep
