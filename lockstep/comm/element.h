// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace lockstep::comm {

enum class Element { float32, float64, float16, bfloat16, int32, int64, uint8 };
enum class Reduction { sum, minimum, maximum };
std::size_t element_size(Element element);
const char* element_name(Element element);
const char* reduction_name(Reduction reduction);

}  // namespace lockstep::comm
