// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/yaml_string.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace lockstep::cli {
namespace {

// The code point of a character of one to three bytes, 0 of a longer one, and its length.
std::pair<unsigned, std::size_t> code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  if (byte(0) < 0xE0) return {(byte(0) & 0x1Fu) << 6 | (byte(1) & 0x3Fu), 2};
  if (byte(0) < 0xF0)
    return {(byte(0) & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu), 3};
  return {0, 4};
}

// What JSON lets stand and YAML does not print, or takes for the end of a line.
bool needs_escape(unsigned code) {
  return (code >= 0x7F && code <= 0x9F) || code == 0x2028 || code == 0x2029 || code == 0xFEFF ||
         code == 0xFFFE || code == 0xFFFF;
}

}  // namespace

// A JSON string is a YAML string too, but for some characters.
std::optional<std::string> yaml_string(std::string_view text) {
  std::string json, result;
  try {
    json = nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  for (std::size_t at = 0; at < json.size();) {
    const auto [code, length] = code_point(std::string_view(json).substr(at));
    result += needs_escape(code) ? fmt::format("\\u{:04x}", code) : json.substr(at, length);
    at += length;
  }
  return result;
}

}  // namespace lockstep::cli
