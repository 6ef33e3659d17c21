// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/memory_error.h"

namespace lockstep {
namespace {

// zlib counts in 32 bits.
constexpr std::size_t kChunk = std::size_t{1} << 18;
constexpr int kGzipOnly = 16 + MAX_WBITS;

class Inflater {
 public:
  Inflater(std::string_view bytes, const std::string& name, std::size_t limit,
           std::string_view whose = {})
      : rest_(bytes), name_(name), limit_(limit), whose_(whose) {
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw OutOfMemory("{}: gzip: no memory", name);
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  std::string begin(std::size_t count) {
    int status = Z_OK;
    while (status != Z_STREAM_END && result_.size() < count) check(status = step());
    return result_.substr(0, count);
  }

  std::string all() {
    do {
      member();
      inflateReset(&stream_);
    } while (is_gzip(rest_));
    // Zeros after the last member are padding, as gzip itself takes them.
    if (rest_.find_first_not_of('\0') != std::string_view::npos)
      throw Corrupt("{}: gzip: {} bytes that are not gzip follow its end", name_, rest_.size());
    return std::move(result_);
  }

 private:
  void member() {
    int status = Z_OK;
    while (status != Z_STREAM_END) {
      check(status = step());
      if (result_.size() > limit_)
        throw Corrupt("{}: gzip: inflates to more than {} bytes{}{}", name_, limit_,
                      whose_.empty() ? "" : ", ", whose_);
    }
  }

  void check(int status) const {
    if (status == Z_BUF_ERROR && rest_.empty())
      throw Corrupt("{}: gzip: ends early, after {} bytes of contents", name_, result_.size());
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      throw Corrupt("{}: gzip: {}", name_, stream_.msg == nullptr ? "damaged" : stream_.msg);
  }

  int step() {
    const std::size_t in = std::min(rest_.size(), kChunk);
    const std::size_t old = result_.size();
    result_.resize(old + kChunk);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
    stream_.avail_in = static_cast<uInt>(in);
    stream_.next_out = reinterpret_cast<Bytef*>(result_.data() + old);
    stream_.avail_out = static_cast<uInt>(kChunk);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    rest_.remove_prefix(in - stream_.avail_in);
    result_.resize(old + kChunk - stream_.avail_out);
    return status;
  }

  z_stream stream_{};
  std::string_view rest_;
  const std::string& name_;
  std::size_t limit_;
  std::string_view whose_;
  std::string result_;
};

}  // namespace

bool is_gzip(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

std::string gunzip(std::string_view bytes, const std::string& name, std::size_t limit,
                   std::string_view whose) {
  if (!is_gzip(bytes)) throw Corrupt("{}: gzip: does not begin with the bytes 1f 8b", name);
  return with_memory_for(name, [&] { return Inflater(bytes, name, limit, whose).all(); });
}

std::string gunzip_begin(std::string_view bytes, const std::string& name, std::size_t count) {
  return Inflater(bytes, name, count).begin(count);
}

std::string read_plain_or_gzip(const std::string& path, std::int64_t max_inflated,
                               std::string_view whose) {
  std::string bytes = read_file(path);
  if (!is_gzip(bytes)) return bytes;
  return gunzip(bytes, path, static_cast<std::size_t>(max_inflated), whose);
}

}  // namespace lockstep
