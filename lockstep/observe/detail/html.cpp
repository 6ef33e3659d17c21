// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/detail/html.h"

#include <cstdint>

namespace lockstep::observe {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Bytes of the code point that begins the text; 0 when none does.
std::size_t code_point_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF5   ? 0
                           : first >= 0xF0 ? 4
                           : first >= 0xE0 ? 3
                           : first >= 0xC2 ? 2
                                           : 0;
  if (size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if (!is_continuation(text[i])) return 0;
  return size;
}

// Overlong forms, surrogates and what lies beyond U+10FFFF have the shape of code points only.
bool is_real_code_point(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  const auto second = bytes.size() > 1 ? static_cast<unsigned char>(bytes[1]) : 0u;
  if (first == 0xE0) return second >= 0xA0;
  if (first == 0xED) return second < 0xA0;
  if (first == 0xF0) return second >= 0x90;
  if (first == 0xF4) return second < 0x90;
  return true;
}

bool is_control(char c) {
  return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
}

void append_ascii(std::string& to, char c) {
  if (c == '&') {
    to += "&amp;";
  } else if (c == '<') {
    to += "&lt;";
  } else if (c == '>') {
    to += "&gt;";
  } else if (c == '"') {
    to += "&quot;";
  } else if (is_control(c)) {
    to += kReplacement;
  } else {
    to += c;
  }
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    std::size_t size = code_point_size(text);
    if (size == 1) {
      append_ascii(escaped, text[0]);
    } else if (size > 1 && is_real_code_point(text.substr(0, size))) {
      escaped += text.substr(0, size);
    } else {
      escaped += kReplacement;
      size = 1;
    }
    text.remove_prefix(size);
  }
  return escaped;
}

}  // namespace lockstep::observe
