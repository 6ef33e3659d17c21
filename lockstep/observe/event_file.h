// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/observe/histogram.h"

namespace lockstep::observe {

// A picture for TensorBoard: the file's bytes as PNG has them, and its size.
struct EventImage {
  int width = 0;
  int height = 0;
  int channels = 3;  // 1 grey, 3 RGB, 4 RGBA
  std::string_view png = {};
};

// Writes a TensorBoard event file. Tags with a slash are grouped: "loss/train", "loss/val".
class EventWriter {
 public:
  using Clock = std::function<double()>;  // seconds since 1970

  // Makes the folder and, in it, events.out.tfevents.<seconds>.<host>.<pid>.<number>. `first_step`
  // is the first step that will be written: where a run is resumed, what earlier files say of it
  // and of later ones is not shown any more. Throws IoError.
  explicit EventWriter(const std::string& folder, std::int64_t first_step = 0, Clock clock = {});
  ~EventWriter();
  EventWriter(EventWriter&& other) noexcept;
  EventWriter& operator=(EventWriter&&) = delete;

  const std::string& path() const { return path_; }

  // Each is in the file on return, or throws IoError and leaves no piece of a record.
  void scalar(std::string_view tag, std::int64_t step, double value);
  void image(std::string_view tag, std::int64_t step, const EventImage& image);
  void histogram(std::string_view tag, std::int64_t step, const Histogram& histogram);
  void histogram(std::string_view tag, std::int64_t step, std::span<const float> values);
  // Markdown.
  void text(std::string_view tag, std::int64_t step, std::string_view text);

 private:
  void append(std::string_view record);
  Clock clock_;
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

// The records of an event file, their checksums verified. Throws Corrupt, with the record's number
// and place, for a checksum that is wrong or a record that is cut off.
std::vector<std::string> read_records(const std::string& path);

}  // namespace lockstep::observe
