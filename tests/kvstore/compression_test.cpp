// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/compression.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "lockstep/base/error.h"
#include "lockstep/tensor/half.h"
#include "tests/message.h"

namespace lockstep::kvstore {
namespace {

using testing::message_of;

constexpr std::size_t kSizes[] = {0, 1, 2, 15, 63, 64, 65, 1000, 1023, 1024, 1025, 5000};
const char* const kLossy[] = {"1bit", "2bit", "2bit:0.3", "topk:0.05"};
const char* const kAll[] = {"fp16", "bf16", "1bit", "2bit", "2bit:0.3", "topk:0.05"};

std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> draw(0.0F, 0.5F);
  std::vector<float> values(count);
  for (float& value : values) value = draw(engine);
  return values;
}

std::vector<std::byte> encoded(const Codec& codec, std::span<const float> values,
                               std::span<float> residual) {
  std::vector<std::byte> payload(codec.payload_bytes(values.size()));
  codec.encode(values, residual, payload);
  return payload;
}

std::vector<float> decoded(const Codec& codec, std::span<const std::byte> payload,
                           std::size_t count) {
  std::vector<float> target(count);
  codec.decode_add(payload, target);
  return target;
}

// The mean size of those of at least so much.
float mean_size(std::span<const float> sums, float least) {
  float lanes[16] = {}, total = 0.0F, count = 0.0F;
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (std::abs(sums[i]) >= least) lanes[i % 16] += std::abs(sums[i]), ++count;
  for (float lane : lanes) total += lane;
  return total / count;
}

std::vector<float> sent_by_blocks(std::span<const float> sums, float part) {
  std::vector<float> sent;
  for (std::size_t begin = 0; begin < sums.size(); begin += 1024) {
    const auto block = sums.subspan(begin, std::min<std::size_t>(1024, sums.size() - begin));
    const float least = part * mean_size(block, 0.0F), mean = mean_size(block, least);
    for (float x : block) sent.push_back(std::abs(x) < least ? 0.0F : x < 0.0F ? -mean : mean);
  }
  return sent;
}

// What of values + residual is sent, by the definitions.
std::vector<float> sent_naively(const Compression& compression, std::span<const float> sums) {
  std::vector<float> sent(sums.begin(), sums.end());
  const auto threshold = static_cast<float>(compression.parameter);
  switch (compression.kind) {
    case Compression::Kind::none: break;
    case Compression::Kind::fp16:
      for (float& x : sent) x = Float16(x);
      break;
    case Compression::Kind::bf16:
      for (float& x : sent) x = BFloat16(x);
      break;
    case Compression::Kind::two_bit:
      if (threshold == 0.0F) return sent_by_blocks(sums, 0.7F);
      for (float& x : sent) x = x >= threshold ? threshold : x <= -threshold ? -threshold : 0.0F;
      break;
    case Compression::Kind::one_bit: return sent_by_blocks(sums, 0.0F);
    case Compression::Kind::top_k: {
      std::vector<std::size_t> order(sums.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return std::abs(sums[a]) > std::abs(sums[b]);
      });
      const double items = std::ceil(compression.parameter * static_cast<double>(sums.size()));
      for (auto i = static_cast<std::size_t>(items); i < order.size(); ++i) sent[order[i]] = 0.0F;
    }
  }
  return sent;
}

TEST(Compression, SaysWhatTheDefinitionSaysForAnySize) {
  for (const char* name : kAll)
    for (std::size_t size : kSizes) {
      const Compression compression = parse_compression(name);
      const auto codec = make_codec(compression);
      const std::vector<float> values = random_values(size, 1);
      std::vector<float> residual = random_values(codec->keeps_residual() ? size : 0, 2);
      std::vector<float> sums = values;
      for (std::size_t i = 0; i < residual.size(); ++i) sums[i] += residual[i];
      const std::vector<float> expected = sent_naively(compression, sums);
      const std::vector<std::byte> payload = encoded(*codec, values, residual);
      EXPECT_EQ(decoded(*codec, payload, size), expected) << name << " " << size;
      for (std::size_t i = 0; i < residual.size(); ++i)
        EXPECT_EQ(residual[i], sums[i] - expected[i]) << name << " " << size << " " << i;
    }
}

TEST(Compression, DecodingAddsToWhatIsThere) {
  for (const char* name : kAll) {
    const auto codec = make_codec(parse_compression(name));
    const std::vector<float> values = random_values(1500, 3);
    std::vector<float> residual(1500), target = random_values(1500, 4);
    const std::vector<float> before = target;
    const std::vector<std::byte> payload = encoded(*codec, values, residual);
    const std::vector<float> alone = decoded(*codec, payload, 1500);
    codec->decode_add(payload, target);
    for (std::size_t i = 0; i < 1500; ++i) EXPECT_EQ(target[i], before[i] + alone[i]) << name;
  }
}

TEST(Compression, APayloadMayBeCutAtItsGrain) {
  for (const char* name : {"fp16", "bf16", "1bit", "2bit", "2bit:0.3"}) {
    const auto codec = make_codec(parse_compression(name));
    const std::vector<float> values = random_values(2500, 5);
    std::vector<float> residual(2500);
    const std::vector<std::byte> payload = encoded(*codec, values, residual);
    const std::vector<float> whole = decoded(*codec, payload, 2500);
    const std::size_t first = codec->grain() == 1 ? 7 : codec->grain();
    const std::size_t bytes = codec->payload_bytes(first);
    std::vector<float> parts(2500);
    codec->decode_add(std::span(payload).first(bytes), std::span(parts).first(first));
    codec->decode_add(std::span(payload).subspan(bytes), std::span(parts).subspan(first));
    EXPECT_EQ(parts, whole) << name;
  }
}

TEST(Compression, WhatIsSentOverManyStepsIsTheTruthButForTheResidual) {
  for (const char* name : kLossy) {
    const auto codec = make_codec(parse_compression(name));
    constexpr std::size_t kCount = 1100;
    std::vector<double> truth(kCount), sent(kCount);
    std::vector<float> residual(kCount);
    for (std::uint32_t step = 0; step < 200; ++step) {
      std::vector<float> values = random_values(kCount, 100 + step);
      for (float& value : values) value = value * 0.1F + 0.02F;
      const std::vector<float> once = decoded(*codec, encoded(*codec, values, residual), kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        truth[i] += static_cast<double>(values[i]);
        sent[i] += static_cast<double>(once[i]);
      }
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      ASSERT_NEAR(sent[i] + static_cast<double>(residual[i]), truth[i], 1e-3) << name << " " << i;
      ASSERT_LT(std::abs(residual[i]), 2.0F) << name << " " << i;
    }
  }
}

TEST(Compression, OfEqualValuesTheFirstAreSent) {
  const auto codec = make_codec(parse_compression("topk:0.5"));
  std::vector<float> values(600, -2.0F), residual(600);
  values[599] = 3.0F;
  const std::vector<float> sent = decoded(*codec, encoded(*codec, values, residual), 600);
  for (std::size_t i = 0; i < 599; ++i) EXPECT_EQ(sent[i], i < 299 ? -2.0F : 0.0F) << i;
  EXPECT_EQ(sent[599], 3.0F);
}

TEST(Compression, WhatIsNoNumberStaysVisibleAndOutOfTheResidual) {
  for (const char* name : kAll)
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()})
      for (std::size_t place : {std::size_t{0}, std::size_t{700}, std::size_t{1199}}) {
        const auto codec = make_codec(parse_compression(name));
        std::vector<float> values = random_values(1200, 6), residual(1200);
        values[place] = bad;
        const std::vector<float> sent = decoded(*codec, encoded(*codec, values, residual), 1200);
        EXPECT_FALSE(std::isfinite(sent[place])) << name << " " << bad;
        for (float kept : residual) ASSERT_TRUE(std::isfinite(kept)) << name << " " << bad;
      }
}

TEST(Compression, APayloadOfAnotherSizeIsCorrupt) {
  for (const char* name : kAll)
    for (std::size_t size : kSizes) {
      const auto codec = make_codec(parse_compression(name));
      std::vector<float> target(size);
      const std::vector<std::byte> longer(codec->payload_bytes(size) + 1);
      EXPECT_THROW(codec->decode_add(longer, target), Corrupt) << name << " " << size;
      if (size == 0) continue;
      EXPECT_THROW(codec->decode_add(std::span(longer).first(longer.size() - 2), target), Corrupt);
    }
}

TEST(Compression, APayloadThatCannotBeIsCorruptAndChangesNothing) {
  std::vector<float> target(65, 1.0F), residual(65);
  const auto refused = [&](const char* name, const std::function<void(std::byte*)>& spoil) {
    const auto codec = make_codec(parse_compression(name));
    std::vector<std::byte> payload = encoded(*codec, random_values(65, 7), residual);
    spoil(payload.data());
    const std::string message = message_of<Corrupt>([&] { codec->decode_add(payload, target); });
    EXPECT_EQ(target, std::vector<float>(65, 1.0F)) << name;
    return message;
  };
  EXPECT_EQ(refused("2bit:0.1", [](std::byte* p) { p[17] = std::byte{1}; }),
            "2bit: the payload says something of a value after its last, number 1");
  EXPECT_EQ(refused("2bit", [](std::byte* p) { p[3] = std::byte{0xbf}; }).substr(0, 30),
            "2bit: the step of block 0 is -");
  EXPECT_EQ(refused("1bit", [](std::byte* p) { p[3] = std::byte{0xbf}; }).substr(0, 30),
            "1bit: the step of block 0 is -");
  EXPECT_EQ(refused("topk:0.03", [](std::byte* p) { p[8] = std::byte{65}; }).substr(0, 32),
            "topk: the payload has place 65, ");
  EXPECT_EQ(refused("topk:0.03", [](std::byte* p) { std::memcpy(p + 8, p, 4); }).substr(0, 28),
            "topk: the payload has place ");
}

TEST(Compression, NamesAreReadAndWritten) {
  for (const char* name : {"none", "fp16", "bf16", "1bit", "2bit:0.25", "topk:0.001"})
    EXPECT_EQ(to_string(parse_compression(name)), name);
  EXPECT_EQ(to_string(parse_compression("2bit")), "2bit");
  EXPECT_EQ(to_string(parse_compression("topk")), "topk:0.01");
  EXPECT_EQ(make_codec({}), nullptr);
}

TEST(Compression, WrongNamesAndNumbersAreRefused) {
  const auto refused = [](const char* text) {
    return message_of<InvalidArgument>([&] { parse_compression(text); });
  };
  EXPECT_EQ(
      refused("3bit"),
      "compression '3bit': expected none, fp16, bf16, 1bit, 2bit[:threshold] or topk[:ratio]");
  EXPECT_EQ(refused("2bit:x"), "compression '2bit:x': 'x' is no number");
  EXPECT_EQ(refused("2bit:"), "compression '2bit:': '' is no number");
  EXPECT_EQ(refused("2bit:0"), "compression '2bit:0': the threshold is 0, expected more than 0");
  EXPECT_EQ(refused("2bit:inf"), "compression '2bit:inf': 'inf' is no number");
  EXPECT_EQ(refused("topk:1.5"),
            "compression 'topk:1.5': the ratio is 1.5, expected more than 0 and at most 1");
  EXPECT_EQ(refused("fp16:2"), "compression 'fp16:2': fp16 takes no number");
}

}  // namespace
}  // namespace lockstep::kvstore
