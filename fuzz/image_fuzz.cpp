// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string_view>

#include "lockstep/data/codec.h"

namespace {

using lockstep::Tensor;
using lockstep::data::Channels;
using lockstep::data::ImageOptions;

constexpr std::int64_t kPixels = 1 << 16;

// What was decoded is a PNG file that decodes to the same.
void check(std::string_view bytes, Channels channels) {
  const ImageOptions options{.channels = channels, .max_pixels = kPixels};
  const Tensor image = lockstep::data::decode_image(bytes, "input", options);
  if (image.shape(0) * image.shape(1) > kPixels) __builtin_trap();
  const std::string png = lockstep::data::encode_png(image);
  const Tensor again = lockstep::data::decode_image(png, "png", {.channels = Channels::as_stored});
  if (again.to_vector<std::uint8_t>() != image.to_vector<std::uint8_t>()) __builtin_trap();
}

}  // namespace

// A file of any bytes gives an image or a typed error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const Channels channels : {Channels::rgb, Channels::as_stored}) {
    try {
      check({reinterpret_cast<const char*>(data), size}, channels);
    } catch (const lockstep::Error&) {
    }
  }
  return 0;
}
