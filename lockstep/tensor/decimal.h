// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/tensor/dtype.h"

namespace lockstep {

// A finite number in decimal: sign, digits d[.]ddd and the power of ten of the first one.
struct Decimal {
  bool negative = false;
  std::string digits = "0";
  int exponent = 0;
};

// The fewest digits that give `value` back when read as `dtype` (a floating one).
Decimal shortest_decimal(double value, DType dtype);
// The same, rounded to at most `places` digits after the point: written out (numbers that are not
// smaller than that), or with an exponent.
Decimal rounded_positional(double value, DType dtype, int places);
Decimal rounded_scientific(double value, DType dtype, int places);

// "-12" and "25" of -12.25.
std::string whole_part(const Decimal& number);
std::string fraction_part(const Decimal& number);

}  // namespace lockstep
