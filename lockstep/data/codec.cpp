// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/codec.h"

#include "lockstep/base/file.h"
#include "lockstep/base/memory_error.h"
#include "lockstep/data/detail/codecs.h"

namespace lockstep::data {

bool is_png(std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1a\n"); }

bool is_jpeg(std::string_view bytes) { return bytes.starts_with("\xff\xd8\xff"); }

Tensor decode_image(std::string_view bytes, const std::string& name, const ImageOptions& options) {
  if (is_png(bytes))
    return with_memory_for(name, [&] { return detail::decode_png(bytes, name, options); });
  if (is_jpeg(bytes))
    return with_memory_for(name, [&] { return detail::decode_jpeg(bytes, name, options); });
  if (bytes.empty()) throw Corrupt("{}: image: is empty, expected JPEG or PNG", name);
  std::string start;
  for (const char byte : bytes.substr(0, 4))
    start += fmt::format(" {:02x}", static_cast<std::uint8_t>(byte));
  throw Corrupt("{}: image: begins with{}, which is neither JPEG nor PNG", name, start);
}

Tensor read_image(const std::string& path, const ImageOptions& options) {
  return decode_image(read_file(path), path, options);
}

namespace detail {

void check_image_size(std::int64_t width, std::int64_t height, const std::string& name,
                      const ImageOptions& options) {
  if (width < 1 || height < 1 || width > options.max_pixels / height)
    throw Corrupt("{}: image: {} x {} pixels, expected 1 to {}, which is max_pixels", name, width,
                  height, options.max_pixels);
}

void check_image_memory(std::int64_t bytes, const std::string& name, const ImageOptions& options) {
  if (bytes > options.max_memory)
    throw Corrupt("{}: image: takes {} bytes to decode, more than {}, {} for each of max_pixels",
                  name, bytes, options.max_memory, ImageOptions::kBytesPerPixel);
}

}  // namespace detail
}  // namespace lockstep::data
