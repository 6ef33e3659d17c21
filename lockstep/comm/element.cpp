// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/element.h"

#include <cstdint>

namespace lockstep::comm {

std::size_t element_size(Element element) {
  switch (element) {
    case Element::float64:
    case Element::int64: return 8;
    case Element::float16:
    case Element::bfloat16: return 2;
    case Element::uint8: return 1;
    default: return 4;
  }
}

const char* element_name(Element element) {
  switch (element) {
    case Element::float32: return "float32";
    case Element::float64: return "float64";
    case Element::float16: return "float16";
    case Element::bfloat16: return "bfloat16";
    case Element::int32: return "int32";
    case Element::int64: return "int64";
    default: return "uint8";
  }
}

const char* reduction_name(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return "sum";
    case Reduction::minimum: return "minimum";
    default: return "maximum";
  }
}

}  // namespace lockstep::comm
