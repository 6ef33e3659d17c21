// SPDX-License-Identifier: Apache-2.0
#pragma once

// jpeglib.h must know FILE and size_t.
// clang-format off
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <jpeglib.h>
// clang-format on

namespace lockstep::testing {

// A JPEG file of one colour: its channels (1 grey, 3 RGB, 4 inverted CMYK).
inline std::string jpeg_of(int width, int height, std::vector<unsigned char> color,
                           bool progressive = false) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &buffer, &size);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = static_cast<int>(color.size());
  jpeg.in_color_space = color.size() == 1 ? JCS_GRAYSCALE : color.size() == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 95, TRUE);
  if (progressive) jpeg_simple_progression(&jpeg);
  if (color.size() == 4) jpeg.write_Adobe_marker = TRUE;
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<unsigned char> row;
  for (int x = 0; x < width; ++x) row.insert(row.end(), color.begin(), color.end());
  for (int y = 0; y < height; ++y) {
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&jpeg, rows, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string result(reinterpret_cast<char*>(buffer), size);
  jpeg_destroy_compress(&jpeg);
  std::free(buffer);
  return result;
}

}  // namespace lockstep::testing
