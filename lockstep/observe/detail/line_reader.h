// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::observe {

// The lines of a file, one after the other, whatever its length: it keeps one line and a piece of
// the file.
class LineReader {
 public:
  // Throws NotFound, IoError.
  explicit LineReader(const std::string& path);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // False at the end; what follows the last line's end is no line. Throws IoError.
  bool next();
  // Without its end; empty where it is longer than any line should be.
  std::string_view line() const { return line_; }
  // Where the next line begins in the file.
  std::size_t end() const { return end_; }
  // Nothing follows but what is no line.
  bool is_last();

 private:
  bool fill();

  std::string path_;
  int descriptor_;
  std::string piece_;
  std::size_t at_ = 0;  // in the piece
  std::string line_;
  std::size_t end_ = 0;
};

}  // namespace lockstep::observe
