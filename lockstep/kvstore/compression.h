// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::kvstore {

// How gradients are made shorter before they travel. The last three lose much, and keep what they
// did not say in a residual that is added to the next gradient.
struct Compression {
  enum class Kind { none, fp16, bf16, one_bit, two_bit, top_k };
  Kind kind = Kind::none;
  // 2bit: the threshold, 0 for one of each block's own; topk: the part of the elements that is
  // sent.
  double parameter = 0.0;

  bool operator==(const Compression&) const = default;
  bool is_none() const { return kind == Kind::none; }
};

// "none", "fp16", "bf16", "1bit", "2bit[:threshold]", "topk[:ratio]". Throws InvalidArgument, which
// lists them.
Compression parse_compression(std::string_view text);
// What parse_compression reads: "2bit:0.01".
std::string to_string(const Compression& compression);

// Floats to bytes and back. The result is a function of the values and the residual alone.
class Codec {
 public:
  virtual ~Codec() = default;
  // Of the payload of so many values.
  virtual std::size_t payload_bytes(std::size_t count) const = 0;
  // A payload may be cut after every so many values; 0: nowhere.
  virtual std::size_t grain() const = 0;
  // Whether the values may be encoded once more after they were added up: nothing else is lost
  // than their last bits.
  virtual bool is_rounding() const = 0;
  bool keeps_residual() const { return !is_rounding(); }
  // The largest number that a payload can say.
  virtual double largest() const;

  // Encodes values + residual; the residual becomes what the payload does not say (one that is kept
  // has as many elements). A NaN or an infinity makes the decoded values NaN or infinite too.
  virtual void encode(std::span<const float> values, std::span<float> residual,
                      std::span<std::byte> payload) const = 0;
  // Adds what the payload says. Throws Corrupt, before anything has changed, when it cannot be one.
  virtual void decode_add(std::span<const std::byte> payload, std::span<float> target) const = 0;
};

// Null for none.
std::unique_ptr<Codec> make_codec(const Compression& compression);

}  // namespace lockstep::kvstore
