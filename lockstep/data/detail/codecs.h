// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/data/codec.h"

namespace lockstep::data::detail {

Tensor decode_png(std::string_view bytes, const std::string& name, const ImageOptions& options);
Tensor decode_jpeg(std::string_view bytes, const std::string& name, const ImageOptions& options);

// Throws Corrupt for an empty image or one above the limit.
void check_image_size(std::int64_t width, std::int64_t height, const std::string& name,
                      const ImageOptions& options);
// Throws Corrupt when decoding would take more bytes than the limit.
void check_image_memory(std::int64_t bytes, const std::string& name, const ImageOptions& options);

}  // namespace lockstep::data::detail
