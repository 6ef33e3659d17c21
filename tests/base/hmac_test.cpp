// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/hmac.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/hex.h"

namespace lockstep {
namespace {

// RFC 4231's test cases 1, 2 and 6 (a key longer than a block).
TEST(Hmac, HasTheStandardsSums) {
  EXPECT_EQ(to_hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(to_hex(hmac_sha256(std::string(131, '\xaa'),
                               "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, TakesAnEmptyKeyAndAnEmptyMessage) {
  const char* of_nothing = "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad";
  EXPECT_EQ(to_hex(hmac_sha256("", "")), of_nothing);
  EXPECT_EQ(to_hex(hmac_sha256({}, {})), of_nothing);
}

TEST(Hmac, ComparesSecretsWhole) {
  EXPECT_TRUE(same_secret("", ""));
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("abc", "abcd"));
}

// A generator that a forked process goes on with where its parent stood would repeat itself.
TEST(Hmac, RandomBytesOfAForkedProcessAreItsOwn) {
  random_bytes(1);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string theirs = random_bytes(32);
    ::_exit(::write(ends[1], theirs.data(), theirs.size()) == 32 ? 0 : 1);
  }
  const std::string ours = random_bytes(32);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  std::string theirs(32, '\0');
  ASSERT_EQ(::read(ends[0], theirs.data(), theirs.size()), 32);
  for (const int end : ends) ::close(end);
  EXPECT_NE(ours, theirs);
}

TEST(Hmac, MakesADifferentSecretEachTime) {
  EXPECT_EQ(make_secret().size(), 64u);
  EXPECT_NE(make_secret(), make_secret());
}

}  // namespace
}  // namespace lockstep
