// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "lockstep/data/detail/codecs.h"

// libpng reports errors by longjmp, which runs no destructor: every function that calls libpng
// beyond a setjmp has plain locals only, and what must be freed belongs to a caller's object.

namespace lockstep::data {
namespace {

// Of those that are kept whole in memory, such as a palette; pixels are not.
constexpr png_alloc_size_t kLargestChunk = png_alloc_size_t{1} << 20;

struct Message {
  char text[160] = "damaged";
};

void on_error(png_structp png, png_const_charp text) {
  auto* message = static_cast<Message*>(png_get_error_ptr(png));
  std::strncpy(message->text, text, sizeof message->text - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

struct Source {
  const char* next;
  std::size_t rest;
};

void read_bytes(png_structp png, png_bytep target, png_size_t count) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (count > source->rest) png_error(png, "ends early");
  std::memcpy(target, source->next, count);
  source->next += count;
  source->rest -= count;
}

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& name, const ImageOptions& options)
      : source_{bytes.data(), bytes.size()}, name_(name), options_(options) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &message_, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) throw OutOfMemory("{}: png: no memory", name);
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Tensor read() {
    if (!read_header()) fail();
    detail::check_image_size(png_get_image_width(png_, info_), png_get_image_height(png_, info_),
                             name_, options_);
    if (!choose_transforms()) fail();
    const std::int64_t height = png_get_image_height(png_, info_);
    const std::int64_t width = png_get_image_width(png_, info_);
    const std::int64_t channels = png_get_channels(png_, info_);
    detail::check_image_memory(height * width * channels, name_, options_);
    const Tensor image = Tensor::empty({height, width, channels}, DType::uint8);
    std::vector<png_bytep> rows;
    for (std::int64_t y = 0; y < height; ++y)
      rows.push_back(image.data<std::uint8_t>() + y * width * channels);
    if (!read_rows(rows.data())) fail();
    return image;
  }

 private:
  [[noreturn]] void fail() { throw Corrupt("{}: png: {}", name_, message_.text); }

  bool read_header() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    // Text, colour profiles and all else that is not pixels (-1: known kinds too) is not needed,
    // and may inflate to anything.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_chunk_malloc_max(png_, kLargestChunk);
    png_set_user_limits(png_, 1U << 30, 1U << 30);
    png_set_read_fn(png_, &source_, read_bytes);
    png_read_info(png_, info_);
    return true;
  }

  bool choose_transforms() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_expand(png_);
    png_set_strip_16(png_);
    if (options_.channels == Channels::rgb) {
      png_set_gray_to_rgb(png_);
      png_set_strip_alpha(png_);
    }
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool read_rows(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

  Source source_;
  const std::string& name_;
  const ImageOptions& options_;
  Message message_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

void append_bytes(png_structp png, png_bytep bytes, png_size_t count) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(bytes), count);
}

int color_type(std::int64_t channels) {
  constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGB_ALPHA};
  return kTypes[channels - 1];
}

class Writer {
 public:
  Writer() {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, &message_, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) throw OutOfMemory("encode_png: no memory");
  }
  ~Writer() { png_destroy_write_struct(&png_, &info_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  std::string write(const Tensor& image, std::int64_t channels) {
    const std::uint8_t* pixels = image.data<std::uint8_t>();
    std::vector<png_bytep> rows;
    for (std::int64_t y = 0; y < image.shape(0); ++y)
      rows.push_back(const_cast<png_bytep>(pixels + y * image.shape(1) * channels));
    if (!write_rows(rows, image.shape(1), color_type(channels)))
      throw InvalidArgument("encode_png: {}: {}", image.info().str(), message_.text);
    return std::move(bytes_);
  }

 private:
  bool write_rows(const std::vector<png_bytep>& rows, std::int64_t width, int type) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_write_fn(png_, &bytes_, append_bytes, nullptr);
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(width),
                 static_cast<png_uint_32>(rows.size()), 8, type, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    png_write_image(png_, const_cast<png_bytepp>(rows.data()));
    png_write_end(png_, nullptr);
    return true;
  }

  std::string bytes_;
  Message message_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

namespace detail {

Tensor decode_png(std::string_view bytes, const std::string& name, const ImageOptions& options) {
  return Reader(bytes, name, options).read();
}

}  // namespace detail

std::string encode_png(const Tensor& image) {
  const std::int64_t channels = image.rank() == 3 ? image.shape(2) : 1;
  if (image.dtype() != DType::uint8 || image.rank() < 2 || image.rank() > 3 || channels < 1 ||
      channels > 4 || image.numel() == 0)
    throw InvalidArgument("encode_png: got {}, expected uint8 [H, W] or [H, W, 1 to 4]",
                          image.info().str());
  return Writer().write(image.contiguous(), channels);
}

}  // namespace lockstep::data
