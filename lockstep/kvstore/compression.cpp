// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/compression.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "lockstep/kvstore/codecs/codecs.h"

namespace lockstep::kvstore {
namespace {

constexpr const char* kChoices = "none, fp16, bf16, 1bit, 2bit[:threshold] or topk[:ratio]";

struct Entry {
  std::string_view name;
  Compression::Kind kind;
  bool takes_number = false;
  double parameter = 0.0;  // when none is given
};
constexpr std::array kEntries{Entry{"none", Compression::Kind::none},
                              Entry{"fp16", Compression::Kind::fp16},
                              Entry{"bf16", Compression::Kind::bf16},
                              Entry{"1bit", Compression::Kind::one_bit},
                              Entry{"2bit", Compression::Kind::two_bit, true},
                              Entry{"topk", Compression::Kind::top_k, true, 0.01}};

double parse_number(std::string_view text, std::string_view whole) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    throw InvalidArgument("compression '{}': '{}' is no number", whole, text);
  return value;
}

// A threshold that is no float32, or rounds to none, would never be reached.
void check_parameter(const Compression& compression, std::string_view whole) {
  const auto value = static_cast<float>(compression.parameter);
  if (compression.kind == Compression::Kind::two_bit && !(value > 0.0F && std::isfinite(value)))
    throw InvalidArgument("compression '{}': the threshold is {}, expected more than 0", whole,
                          compression.parameter);
  if (compression.kind == Compression::Kind::top_k &&
      !(compression.parameter > 0.0 && compression.parameter <= 1.0))
    throw InvalidArgument("compression '{}': the ratio is {}, expected more than 0 and at most 1",
                          whole, compression.parameter);
}

}  // namespace

double Codec::largest() const { return std::numeric_limits<float>::max(); }

Compression parse_compression(std::string_view text) {
  const std::size_t colon = text.find(':');
  for (const Entry& entry : kEntries) {
    if (entry.name != text.substr(0, colon)) continue;
    Compression result{entry.kind, entry.parameter};
    if (colon == std::string_view::npos) return result;
    if (!entry.takes_number)
      throw InvalidArgument("compression '{}': {} takes no number", text, entry.name);
    result.parameter = parse_number(text.substr(colon + 1), text);
    check_parameter(result, text);
    return result;
  }
  throw InvalidArgument("compression '{}': expected {}", text, kChoices);
}

std::string to_string(const Compression& compression) {
  for (const Entry& entry : kEntries)
    if (entry.kind == compression.kind)
      return compression.parameter == 0.0 ? std::string(entry.name)
                                          : fmt::format("{}:{}", entry.name, compression.parameter);
  return {};
}

std::unique_ptr<Codec> make_codec(const Compression& compression) {
  const bool own_step =
      compression.kind == Compression::Kind::two_bit && compression.parameter == 0.0;
  if (own_step) return ternary_codec();
  check_parameter(compression, to_string(compression));
  switch (compression.kind) {
    case Compression::Kind::none: break;
    case Compression::Kind::fp16: return float16_codec();
    case Compression::Kind::bf16: return bfloat16_codec();
    case Compression::Kind::one_bit: return one_bit_codec();
    case Compression::Kind::two_bit:
      return two_bit_codec(static_cast<float>(compression.parameter));
    case Compression::Kind::top_k: return top_k_codec(compression.parameter);
  }
  return nullptr;
}

}  // namespace lockstep::kvstore
