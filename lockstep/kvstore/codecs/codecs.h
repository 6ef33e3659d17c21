// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/base/error.h"
#include "lockstep/kvstore/compression.h"

namespace lockstep::kvstore {

std::unique_ptr<Codec> float16_codec();
std::unique_ptr<Codec> bfloat16_codec();
std::unique_ptr<Codec> one_bit_codec();
std::unique_ptr<Codec> two_bit_codec(float threshold);
std::unique_ptr<Codec> ternary_codec();  // 2bit without a threshold
std::unique_ptr<Codec> top_k_codec(double ratio);

// What every decoder checks first.
inline void check_payload(const char* codec, const Codec& own, std::size_t bytes,
                          std::size_t count) {
  const std::size_t expected = own.payload_bytes(count);
  if (bytes != expected)
    throw Corrupt("{}: the payload of {} values has {} bytes, expected {}", codec, count, bytes,
                  expected);
}

inline void check_residual(const char* codec, std::size_t values, std::size_t residual,
                           std::size_t payload, const Codec& own) {
  check(residual == values || !own.keeps_residual(), codec);
  check(payload == own.payload_bytes(values), codec);
}

}  // namespace lockstep::kvstore
