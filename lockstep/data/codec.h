// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/tensor/tensor.h"

namespace lockstep::data {

enum class Channels {
  rgb,        // three: grey is repeated, alpha is dropped, CMYK is converted
  as_stored,  // grey 1, grey and alpha 2, colour 3, colour and alpha 4; a palette is looked up
};

struct ImageOptions {
  Channels channels = Channels::rgb;
  // More is Corrupt, and nothing is allocated for it: a small file can ask for any amount.
  std::int64_t max_pixels = std::int64_t{1} << 26;
  std::int64_t max_memory = kBytesPerPixel * max_pixels;  // while it is decoded
  // Enough for the pixels, and for the coefficients of a progressive JPEG with halved colours.
  static constexpr std::int64_t kBytesPerPixel = 8;
};

// A JPEG or PNG image as uint8 [H, W, C]. 16-bit samples keep their high byte; gamma and colour
// profiles are not applied. Throws Corrupt that begins with `name`; an image whose data ends early
// is Corrupt, not grey below.
Tensor decode_image(std::string_view bytes, const std::string& name,
                    const ImageOptions& options = {});
Tensor read_image(const std::string& path, const ImageOptions& options = {});

bool is_png(std::string_view bytes);
bool is_jpeg(std::string_view bytes);

// uint8 of shape [H, W] or [H, W, C] with C from 1 to 4, as a PNG file.
std::string encode_png(const Tensor& image);

}  // namespace lockstep::data
