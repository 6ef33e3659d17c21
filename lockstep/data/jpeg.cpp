// SPDX-License-Identifier: Apache-2.0
// jpeglib.h must know FILE and size_t.
// clang-format off
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <vector>

#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "lockstep/data/detail/codecs.h"

// libjpeg reports errors by longjmp, which runs no destructor: every function that calls libjpeg
// beyond a setjmp has plain locals only, and what must be freed belongs to a caller's object.

namespace lockstep::data {
namespace {

// A progressive file of more scans than this only wants to keep us busy: each goes over all of the
// image. Usual are 10. The largest images may have as many as that costs ...
constexpr std::int64_t kMaxScans = 100;
constexpr std::int64_t kScansOfLargest = 16;  // ... a smaller one more, up to kMaxScans

struct Errors {
  jpeg_error_mgr manager;
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX] = "damaged";
  std::int64_t max_scans = kMaxScans;
};

[[noreturn]] void on_error(j_common_ptr common) {
  auto* errors = reinterpret_cast<Errors*>(common->err);
  common->err->format_message(common, errors->text);
  std::longjmp(errors->jump, 1);
}

// Missing or undecodable data is an error here; libjpeg would fill the rest with grey.
void on_message(j_common_ptr common, int level) {
  if (level >= 0) return;
  const int code = common->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE)
    on_error(common);
}

void on_progress(j_common_ptr common) {
  auto* decompress = reinterpret_cast<j_decompress_ptr>(common);
  auto* errors = reinterpret_cast<Errors*>(common->err);
  if (decompress->input_scan_number <= errors->max_scans) return;
  std::snprintf(errors->text, sizeof errors->text, "more than %d scans",
                static_cast<int>(errors->max_scans));
  std::longjmp(errors->jump, 1);
}

// Adobe writes CMYK inverted, and everyone follows.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, std::int64_t pixels, bool inverted) {
  for (std::int64_t p = 0; p < pixels; ++p, cmyk += 4, rgb += 3)
    for (int c = 0; c < 3; ++c) {
      const int ink = inverted ? cmyk[c] : 255 - cmyk[c];
      const int black = inverted ? cmyk[3] : 255 - cmyk[3];
      rgb[c] = static_cast<std::uint8_t>((ink * black + 127) / 255);
    }
}

class Decoder {
 public:
  Decoder(std::string_view bytes, const std::string& name, const ImageOptions& options)
      : bytes_(bytes), name_(name), options_(options) {
    jpeg_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = on_error;
    errors_.manager.emit_message = on_message;
    if (!create()) fail();
  }
  ~Decoder() { jpeg_destroy_decompress(&jpeg_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  Tensor decode() {
    if (!read_header()) fail();
    detail::check_image_size(jpeg_.image_width, jpeg_.image_height, name_, options_);
    choose_colors();
    detail::check_image_memory(pixel_bytes() + coefficient_bytes(), name_, options_);
    errors_.max_scans =
        std::min(kScansOfLargest * std::min(options_.max_pixels / pixels(), kMaxScans), kMaxScans);
    if (!start()) fail();
    const std::int64_t height = jpeg_.output_height;
    const std::int64_t width = jpeg_.output_width;
    const Tensor image = Tensor::empty({height, width, jpeg_.output_components}, DType::uint8);
    std::vector<JSAMPROW> rows;
    for (std::int64_t y = 0; y < height; ++y)
      rows.push_back(image.data<std::uint8_t>() + y * width * jpeg_.output_components);
    if (!read_rows(rows.data())) fail();
    return jpeg_.out_color_space == JCS_CMYK ? from_cmyk(image) : image;
  }

 private:
  [[noreturn]] void fail() { throw Corrupt("{}: jpeg: {}", name_, errors_.text); }

  std::int64_t pixels() const {
    return std::int64_t{jpeg_.image_width} * std::int64_t{jpeg_.image_height};
  }
  // As they come, and those of CMYK once more as RGB.
  std::int64_t pixel_bytes() const {
    return pixels() * (jpeg_.out_color_space == JCS_CMYK ? 4 + 3 : 3);
  }
  // A file of several scans is decoded when all are read: until then its coefficients are kept.
  std::int64_t coefficient_bytes() {
    if (jpeg_has_multiple_scans(&jpeg_) == FALSE) return 0;
    std::int64_t blocks = 0;
    for (int i = 0; i < jpeg_.num_components; ++i)
      blocks += std::int64_t{jpeg_.comp_info[i].width_in_blocks} *
                std::int64_t{jpeg_.comp_info[i].height_in_blocks};
    return blocks * DCTSIZE2 * static_cast<std::int64_t>(sizeof(JCOEF));
  }

  bool create() {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    progress_.progress_monitor = on_progress;
    jpeg_.progress = &progress_;
    return true;
  }

  bool read_header() {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }

  void choose_colors() {
    const bool grey = jpeg_.jpeg_color_space == JCS_GRAYSCALE;
    const bool inks = jpeg_.num_components == 4;
    if (inks)
      jpeg_.out_color_space = JCS_CMYK;
    else if (grey && options_.channels == Channels::as_stored)
      jpeg_.out_color_space = JCS_GRAYSCALE;
    else
      jpeg_.out_color_space = JCS_RGB;
    jpeg_.dct_method = JDCT_ISLOW;
  }

  bool start() {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_start_decompress(&jpeg_);
    return true;
  }

  bool read_rows(JSAMPARRAY rows) {
    if (setjmp(errors_.jump) != 0) return false;
    while (jpeg_.output_scanline < jpeg_.output_height)
      jpeg_read_scanlines(&jpeg_, rows + jpeg_.output_scanline,
                          jpeg_.output_height - jpeg_.output_scanline);
    jpeg_finish_decompress(&jpeg_);
    return true;
  }

  Tensor from_cmyk(const Tensor& cmyk) const {
    Tensor rgb = Tensor::empty({cmyk.shape(0), cmyk.shape(1), 3}, DType::uint8);
    cmyk_to_rgb(cmyk.data<std::uint8_t>(), rgb.data<std::uint8_t>(), cmyk.shape(0) * cmyk.shape(1),
                jpeg_.saw_Adobe_marker == TRUE);
    return rgb;
  }

  std::string_view bytes_;
  const std::string& name_;
  const ImageOptions& options_;
  Errors errors_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct jpeg_{};
};

}  // namespace

namespace detail {

Tensor decode_jpeg(std::string_view bytes, const std::string& name, const ImageOptions& options) {
  return Decoder(bytes, name, options).decode();
}

}  // namespace detail
}  // namespace lockstep::data
