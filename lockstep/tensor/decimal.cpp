// SPDX-License-Identifier: Apache-2.0
#include "lockstep/tensor/decimal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace lockstep {
namespace {

Decimal parse_scientific(const char* first, const char* last) {
  Decimal number;
  number.digits.clear();
  number.negative = *first == '-';
  for (first += number.negative; first != last && *first != 'e'; ++first)
    if (*first != '.') number.digits += *first;
  if (first != last) number.exponent = std::atoi(first + 1);
  while (number.digits.size() > 1 && number.digits.back() == '0') number.digits.pop_back();
  return number;
}

template <class T, class... Precision>
Decimal scientific(T value, Precision... precision) {
  std::array<char, 64> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size() - 1, value,
                                          std::chars_format::scientific, precision...);
  check(error == std::errc(), "a number has at most 40 digits");
  return parse_scientific(text.data(), end);
}

double value_of(const Decimal& number) {
  const std::string text = number.digits.substr(0, 1) + "." + number.digits.substr(1) + "e" +
                           std::to_string(number.exponent);
  return std::strtod(text.c_str(), nullptr) * (number.negative ? -1.0 : 1.0);
}

// The standard library knows no 16-bit floats: adds digits until the number comes back.
template <class Half>
Decimal shortest_half(double value) {
  const std::uint16_t bits = Half(static_cast<float>(value)).bits;
  for (int digits = 0; digits < 8; ++digits) {
    Decimal number = scientific(value, digits);
    if (Half(static_cast<float>(value_of(number))).bits == bits) return number;
  }
  return scientific(value, 8);
}

int fraction_digits(const Decimal& number) {
  return std::max(0, static_cast<int>(number.digits.size()) - 1 - number.exponent);
}

}  // namespace

Decimal shortest_decimal(double value, DType dtype) {
  switch (dtype) {
    case DType::float16: return shortest_half<Float16>(value);
    case DType::bfloat16: return shortest_half<BFloat16>(value);
    case DType::float32: return scientific(static_cast<float>(value));
    default: return scientific(value);
  }
}

Decimal rounded_positional(double value, DType dtype, int places) {
  Decimal number = shortest_decimal(value, dtype);
  if (fraction_digits(number) <= places) return number;
  return scientific(value, std::max(number.exponent + places, 0));
}

Decimal rounded_scientific(double value, DType dtype, int places) {
  Decimal number = shortest_decimal(value, dtype);
  if (static_cast<int>(number.digits.size()) - 1 <= places) return number;
  return scientific(value, places);
}

std::string whole_part(const Decimal& number) {
  std::string text = number.negative ? "-" : "";
  if (number.exponent < 0) return text + "0";
  const auto length = static_cast<std::size_t>(number.exponent) + 1;
  text += number.digits.substr(0, length);
  if (number.digits.size() < length) text.append(length - number.digits.size(), '0');
  return text;
}

std::string fraction_part(const Decimal& number) {
  if (number.exponent < 0) {
    if (number.digits == "0") return "";
    return std::string(static_cast<std::size_t>(-number.exponent - 1), '0') + number.digits;
  }
  const auto length = static_cast<std::size_t>(number.exponent) + 1;
  return number.digits.size() > length ? number.digits.substr(length) : "";
}

}  // namespace lockstep
