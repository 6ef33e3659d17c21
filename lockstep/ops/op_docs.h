// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep {

enum class Presence : std::uint8_t {
  required,
  optional,  // may be left out
  repeated,  // any number of them, at least one; the last of its list
};

// One input or output of an op: the name it has in every language, and a line about it.
struct ArgumentDoc {
  std::string_view name;
  std::string_view text;
  Presence presence = Presence::required;
};

// What an op is to somebody who calls it. The lists are constants beside the op's definition.
struct OpDocs {
  std::string_view summary;  // one line: what it computes
  std::span<const ArgumentDoc> inputs = {};
  std::span<const ArgumentDoc> outputs = {};
};

}  // namespace lockstep
