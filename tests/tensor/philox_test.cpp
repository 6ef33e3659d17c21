// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/philox.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Block = std::array<std::uint32_t, 4>;

// Counter words are (block, use, step, shard); the key is the seed.
Block encrypt(const Block& counter, std::uint32_t k0, std::uint32_t k1) {
  const RandomKey key{.seed = std::uint64_t{k1} << 32 | k0,
                      .step = counter[2],
                      .shard = counter[3],
                      .use = counter[1]};
  return philox(key, counter[0]);
}

// The known answers that the authors publish with their Random123 library, for philox4x32-10.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(encrypt({0, 0, 0, 0}, 0, 0),
            (Block{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(encrypt({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, 0xffffffffu, 0xffffffffu),
            (Block{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(encrypt({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0xa4093822u, 0x299f31d0u),
            (Block{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, EachElementTakesOneWordOfItsBlock) {
  const RandomKey key{.seed = 42, .step = 1, .shard = 2, .use = 3};
  for (std::uint64_t i = 0; i < 16; ++i)
    EXPECT_EQ(random_bits(key, i), philox(key, static_cast<std::uint32_t>(i / 4))[i % 4]);
}

TEST(Philox, EveryPartOfTheKeyChangesTheBits) {
  const RandomKey key{.seed = 42, .step = 1, .shard = 2, .use = 3};
  const std::uint32_t bits = random_bits(key, 5);
  EXPECT_NE(random_bits({43, 1, 2, 3}, 5), bits);
  EXPECT_NE(random_bits({42 + (std::uint64_t{1} << 32), 1, 2, 3}, 5), bits);
  EXPECT_NE(random_bits({42, 0, 2, 3}, 5), bits);
  EXPECT_NE(random_bits({42, 1, 0, 3}, 5), bits);
  EXPECT_NE(random_bits({42, 1, 2, 0}, 5), bits);
}

TEST(Philox, UnitFloatsAreBelowOne) {
  EXPECT_EQ(unit_float(0), 0.0f);
  EXPECT_EQ(unit_float(0xffffffffu), 1.0f - 0x1p-24f);
}

}  // namespace
}  // namespace lockstep
