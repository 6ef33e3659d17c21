// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/same_bits.h"

#include <gtest/gtest.h>

#include "lockstep/comm/errors.h"
#include "tests/kvstore/fake_group.h"
#include "tests/message.h"

namespace lockstep::train {
namespace {

using testing::message_of;

// This worker, and one that says what it is told to say.
class Pair final : public testing::FakeGroup {
 public:
  explicit Pair(std::string other) : FakeGroup(0, 2), other_(std::move(other)) {}
  std::vector<std::string> share(const std::string& own) override { return {own, other_}; }

 private:
  std::string other_;
};

const Probe kOwn{"0123456789abcdef00", "abab", "fedcba987654321000"};

TEST(SameBits, EqualProbesFit) {
  Pair pair(kOwn.parameters + "\nabab\n" + kOwn.results + "\nAnother Processor");
  EXPECT_TRUE(have_same_bits(pair, kOwn, false));
}

TEST(SameBits, OtherResultsAreRefusedWithBothSumsAndProcessors) {
  Pair pair(kOwn.parameters + "\nabab\n0000000000000000ff\nAnother Processor");
  EXPECT_EQ(message_of<comm::Refused>([&] { have_same_bits(pair, kOwn, false); }),
            "train: worker 1 (Another Processor) computes other bits than worker 0 (" +
                processor_name() +
                "): 0000000000000000 and fedcba9876543210; leave it out, or "
                "--allow-different-bits");
}

TEST(SameBits, OtherResultsMayBeAllowed) {
  Pair pair(kOwn.parameters + "\nabab\n0000000000000000ff\nAnother Processor");
  EXPECT_FALSE(have_same_bits(pair, kOwn, true));
}

TEST(SameBits, OtherParametersAreRefusedAlways) {
  Pair pair("ffff456789abcdef00\nabab\n" + kOwn.results + "\nAnother Processor");
  EXPECT_EQ(message_of<comm::Refused>([&] { have_same_bits(pair, kOwn, true); }),
            "train: worker 1 begins with parameters ffff456789abcdef, worker 0 with "
            "0123456789abcdef: they must be the same; look at its files");
}

TEST(SameBits, OtherLayoutsAreRefusedAlways) {
  Pair pair(kOwn.parameters + "\ncdcd\n" + kOwn.results + "\nAnother Processor");
  EXPECT_EQ(message_of<comm::Refused>([&] { have_same_bits(pair, kOwn, true); }),
            "train: worker 1 (Another Processor) keeps its weights in another order than worker 0 "
            "(" +
                processor_name() +
                "): their libraries choose other kernels; leave it out, or set LOCKSTEP_ISA");
}

}  // namespace
}  // namespace lockstep::train
