// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/codec.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {

// A file of MXNet's RecordIO format: records of any bytes, each found by its byte offset. Reading
// is const and may come from several threads at once.
class RecordFile {
 public:
  struct Record {
    std::string bytes;
    std::uint64_t next;  // the offset of the record after it
  };

  // Throws NotFound or IoError.
  static RecordFile open(const std::string& path);
  static RecordFile from_bytes(std::string bytes, const std::string& name);

  // Throws Corrupt that begins with the path when no whole record begins at `offset`.
  Record read(std::uint64_t offset) const;
  // The offsets of the records that begin in part `part` of `parts` equal ranges of bytes. Every
  // record is in exactly one part.
  std::vector<std::uint64_t> offsets(std::int64_t part = 0, std::int64_t parts = 1) const;
  std::uint64_t size() const;
  const std::string& path() const;

 private:
  class Source;
  explicit RecordFile(std::shared_ptr<const Source> source) : source_(std::move(source)) {}
  std::shared_ptr<const Source> source_;
};

struct RecordKey {
  std::int64_t key;
  std::uint64_t offset;
};

// An .idx file: lines of a key, a tab and a record's offset. Throws Corrupt that begins with
// `path:line`.
std::vector<RecordKey> read_record_index(const std::string& path);

// Writes a record file, and its index beside it. Both appear under their names when finish() has
// been called, else not at all.
class RecordWriter {
 public:
  // `index`: the .idx file's path; empty: none. Throws NotFound when a folder is missing, IoError.
  explicit RecordWriter(std::string path, std::string index = {});
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // Keys count from 0. Throws InvalidArgument for a record of 2^29 bytes or more.
  void write(std::string_view record);
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// An image with one label or several.
struct ImageRecord {
  std::vector<float> labels;
  std::uint64_t id = 0;
  std::uint64_t second_id = 0;
  std::string image;  // JPEG or PNG
};

std::string pack_image_record(const ImageRecord& record);
// Throws Corrupt that begins with `name`.
ImageRecord unpack_image_record(std::string_view bytes, const std::string& name);

struct ImageRecordOptions {
  ImageOptions image = {};
  bool float_labels = false;  // labels as float32 [K]; else the one label, a class, as int64
  std::int64_t classes = 0;   // labels are in [0, classes); 0: not checked
  std::int64_t part = 0;      // of so many ...
  std::int64_t parts = 1;     // ... equal parts of the file; with an index: of its entries
};

// The images of a record file, decoded when they are asked for: uint8 [H, W, C]. With an empty
// `index` the file is searched for its records once.
DatasetPtr read_image_records(const std::string& path, const std::string& index = {},
                              const ImageRecordOptions& options = {});

}  // namespace lockstep::data
