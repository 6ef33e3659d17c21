// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/codec.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "tests/data/files.h"
#include "tests/data/jpegged.h"
#include "tests/message.h"

namespace lockstep::data {
namespace {

using testing::bytes;
using testing::jpeg_of;
using testing::message_of;

const ImageOptions kAsStored{.channels = Channels::as_stored};

Tensor counting_image(const Shape& shape) {
  std::vector<std::uint8_t> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * 37);
  return Tensor::from(values, shape);
}

std::vector<int> first_pixel(const Tensor& image) {
  const std::vector<int> all = image.to_vector<int>();
  return {all.begin(), all.begin() + image.shape(2)};
}

void expect_near_color(const Tensor& image, const std::vector<int>& color) {
  const std::vector<int> pixel = first_pixel(image);
  ASSERT_EQ(pixel.size(), color.size());
  for (std::size_t i = 0; i < color.size(); ++i) EXPECT_NEAR(pixel[i], color[i], 4);
}

std::string big_endian(std::size_t value) {
  return bytes({static_cast<int>(value >> 24 & 255), static_cast<int>(value >> 16 & 255),
                static_cast<int>(value >> 8 & 255), static_cast<int>(value & 255)});
}

std::string png_chunk(const std::string& kind, const std::string& contents) {
  const std::string summed = kind + contents;
  const auto* data = reinterpret_cast<const Bytef*>(summed.data());
  return big_endian(contents.size()) + summed +
         big_endian(crc32(0, data, static_cast<uInt>(summed.size())));
}

// A PNG file of a header, chunks before the data, and one row with its filter byte.
std::string png_of(std::initializer_list<int> header, const std::string& chunks,
                   std::initializer_list<int> row) {
  const std::string raw = bytes(row);
  uLongf size = 100;
  std::string data(size, '\0');
  compress(reinterpret_cast<Bytef*>(data.data()), &size, reinterpret_cast<const Bytef*>(raw.data()),
           raw.size());
  data.resize(size);
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", bytes(header)) + chunks + png_chunk("IDAT", data) +
         png_chunk("IEND", "");
}

TEST(Png, WhatIsWrittenIsReadForEveryNumberOfChannels) {
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    const Tensor image = counting_image({5, 7, channels});
    const Tensor read = decode_image(encode_png(image), "f", kAsStored);
    EXPECT_EQ(read.shape(), image.shape());
    EXPECT_EQ(read.to_vector<int>(), image.to_vector<int>());
  }
}

TEST(Png, GreyIsRepeatedAndAlphaDropped) {
  EXPECT_EQ(first_pixel(decode_image(encode_png(Tensor::full({2, 2}, 9, DType::uint8)), "f")),
            (std::vector<int>{9, 9, 9}));
  const Tensor translucent = Tensor::from(std::vector<std::uint8_t>{10, 20, 30, 40}, {1, 1, 4});
  EXPECT_EQ(first_pixel(decode_image(encode_png(translucent), "f")),
            (std::vector<int>{10, 20, 30}));
}

TEST(Png, PalettesAndFewBitsAreLookedUp) {
  // Two pixels of one bit: colour 0, colour 1.
  const std::string palette = png_chunk("PLTE", bytes({1, 2, 3, 200, 201, 202}));
  const std::string png = png_of({0, 0, 0, 2, 0, 0, 0, 1, 1, 3, 0, 0, 0}, palette, {0, 0x40});
  EXPECT_EQ(decode_image(png, "f").to_vector<int>(), (std::vector<int>{1, 2, 3, 200, 201, 202}));
}

TEST(Png, SixteenBitsKeepTheirHighByteAndGammaIsNotApplied) {
  const std::string gamma = png_chunk("gAMA", bytes({0, 1, 0x86, 0xa0}));
  const std::string png =
      png_of({0, 0, 0, 1, 0, 0, 0, 1, 16, 2, 0, 0, 0}, gamma, {0, 100, 255, 50, 1, 25, 128});
  EXPECT_EQ(decode_image(png, "f").to_vector<int>(), (std::vector<int>{100, 50, 25}));
}

TEST(Png, EveryPrefixIsCorrupt) {
  const std::string whole = encode_png(counting_image({4, 4, 3}));
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(decode_image(whole.substr(0, length), "f"), Corrupt) << length;
  EXPECT_EQ(message_of<Corrupt>([&] { decode_image(whole.substr(0, 50), "f"); }),
            "f: png: ends early");
}

TEST(Png, AChangedByteOfTheDataIsCorrupt) {
  std::string whole = encode_png(counting_image({4, 4, 3}));
  whole[whole.size() - 13] ^= 1;  // the last byte of its sum, before the end's 12
  EXPECT_EQ(message_of<Corrupt>([&] { decode_image(whole, "f"); }), "f: png: IDAT: CRC error");
}

TEST(Png, AHugeImageIsRefusedByItsHeader) {
  const std::string whole = encode_png(counting_image({40, 30, 1}));
  const ImageOptions small{.max_pixels = 1000};
  EXPECT_EQ(message_of<Corrupt>([&] { decode_image(whole, "f", small); }),
            "f: image: 30 x 40 pixels, expected 1 to 1000, which is max_pixels");
}

std::string zlib_of(const std::string& raw) {
  uLongf size = compressBound(raw.size());
  std::string data(size, '\0');
  compress2(reinterpret_cast<Bytef*>(data.data()), &size,
            reinterpret_cast<const Bytef*>(raw.data()), raw.size(), 9);
  return data.substr(0, size);
}

// The most memory that this process has had while it did something, above what it had.
template <class Work>
std::int64_t peak_growth(Work&& work) {
  const auto kilobytes = [](const std::string& name) {
    const std::string status = read_file("/proc/self/status");
    return std::stoll(status.substr(status.find(name) + name.size()));
  };
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
  const std::int64_t before = kilobytes("VmRSS:");
  work();
  return (kilobytes("VmHWM:") - before) << 10;
}

// Text and profiles are not pixels: whatever they inflate to, they are not inflated.
TEST(Png, ChunksThatInflateToAnythingCostNothing) {
  const std::string bomb = zlib_of(std::string(7'000'000, 'x')), zero(1, '\0');
  std::string chunks = png_chunk("iCCP", "profile" + zero + zero + bomb);
  for (int i = 0; i < 40; ++i) {
    chunks += png_chunk("zTXt", "comment" + zero + zero + bomb);
    chunks += png_chunk("iTXt", "comment" + zero + "\x01" + zero + zero + zero + bomb);
  }
  const std::string file = png_of({0, 0, 0, 2, 0, 0, 0, 1, 8, 0, 0, 0, 0}, chunks, {0, 10, 20});
  const std::int64_t grown = peak_growth([&] {
    EXPECT_EQ(decode_image(file, "f", kAsStored).to_vector<int>(), (std::vector<int>{10, 20}));
  });
  EXPECT_LT(grown, 50'000'000);
}

TEST(Png, WhatAnImageTakesToDecodeIsBounded) {
  const std::string whole = encode_png(counting_image({40, 30, 1}));
  ImageOptions small;
  small.max_memory = 40 * 30 * 3;
  EXPECT_EQ(decode_image(whole, "f", small).shape(), (Shape{40, 30, 3}));
  small.max_memory -= 1;
  EXPECT_EQ(message_of<Corrupt>([&] { decode_image(whole, "f", small); }),
            "f: image: takes 3600 bytes to decode, more than 3599, 8 for each of max_pixels");
}

TEST(Png, WhatIsNotAnImageIsNotWritten) {
  EXPECT_EQ(message_of([] {
              encode_png(Tensor::zeros({2, 2}));
            }),
            "encode_png: got float32[2, 2], expected uint8 [H, W] or [H, W, 1 to 4]");
  EXPECT_THROW(encode_png(Tensor::zeros({2, 2, 5}, DType::uint8)), InvalidArgument);
  EXPECT_THROW(encode_png(Tensor::zeros({0, 2, 1}, DType::uint8)), InvalidArgument);
}

TEST(Jpeg, ColourGreyAndInksBecomeRgb) {
  const Tensor color = decode_image(jpeg_of(20, 10, {200, 100, 50}), "f");
  EXPECT_EQ(color.shape(), (Shape{10, 20, 3}));
  expect_near_color(color, {200, 100, 50});
  expect_near_color(decode_image(jpeg_of(8, 8, {90}), "f"), {90, 90, 90});
  expect_near_color(decode_image(jpeg_of(8, 8, {255, 128, 0, 128}), "f"), {128, 64, 0});
  expect_near_color(decode_image(jpeg_of(9, 9, {1, 2, 250}, true), "f"), {1, 2, 250});
}

TEST(Jpeg, GreyStaysGreyWhenAsked) {
  EXPECT_EQ(decode_image(jpeg_of(3, 2, {90}), "f", kAsStored).shape(), (Shape{2, 3, 1}));
}

TEST(Jpeg, EveryPrefixIsCorrupt) {
  const std::string whole = jpeg_of(24, 24, {200, 100, 50});
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(decode_image(whole.substr(0, length), "f"), Corrupt) << length;
  EXPECT_EQ(message_of<Corrupt>([&] { decode_image(whole.substr(0, whole.size() - 2), "f"); }),
            "f: jpeg: Premature end of JPEG file");
}

TEST(Jpeg, AHugeImageIsRefusedByItsHeader) {
  const ImageOptions small{.max_pixels = 1000};
  EXPECT_EQ(message_of<Corrupt>([&] { decode_image(jpeg_of(30, 40, {9}), "f", small); }),
            "f: image: 30 x 40 pixels, expected 1 to 1000, which is max_pixels");
}

// Its coefficients are kept until its last scan is read: two bytes for each of three channels.
TEST(Jpeg, AProgressiveImageTakesMoreAndIsBounded) {
  const std::vector<unsigned char> color{1, 2, 250};
  ImageOptions small;
  small.max_memory = 64 * 64 * 5;
  EXPECT_EQ(decode_image(jpeg_of(64, 64, color), "f", small).shape(), (Shape{64, 64, 3}));
  EXPECT_EQ(message_of<Corrupt>([&] { decode_image(jpeg_of(64, 64, color, true), "f", small); }),
            "f: image: takes 24576 bytes to decode, more than 20480, 8 for each of max_pixels");
}

// Every scan goes over the whole image: as many as the largest image may have in all.
TEST(Jpeg, ManyScansOfALargeImageAreRefused) {
  const std::string file = jpeg_of(64, 64, {1, 2, 250}, true);
  const std::size_t first = file.find("\xff\xda"), second = file.find("\xff\xda", first + 1);
  const std::size_t end = file.find("\xff\xda", second + 1);
  std::string many = file.substr(0, end);  // the second scan over and over
  const std::size_t tables = file.find("\xff\xc4", first);
  const std::string scan = file.substr(std::min(tables, second), end - std::min(tables, second));
  for (int i = 0; i < 120; ++i) many += scan;
  many += file.substr(end);
  EXPECT_EQ(message_of<Corrupt>([&] { decode_image(many, "f"); }), "f: jpeg: more than 100 scans");
  EXPECT_EQ(message_of<Corrupt>([&] { decode_image(many, "f", {.max_pixels = 64 * 64}); }),
            "f: jpeg: more than 16 scans");
}

TEST(Images, OtherBytesAreNamed) {
  EXPECT_EQ(message_of<Corrupt>([] { decode_image("GIF89a", "f"); }),
            "f: image: begins with 47 49 46 38, which is neither JPEG nor PNG");
  EXPECT_EQ(message_of<Corrupt>([] { decode_image("", "f"); }),
            "f: image: is empty, expected JPEG or PNG");
}

}  // namespace
}  // namespace lockstep::data
