// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/detail/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/memory_error.h"

namespace lockstep::data::detail {
namespace {

// For this thread: libarchive converts the names of pax headers, which are UTF-8, to the locale's
// bytes, and warns where it has none for them.
class Utf8Names {
 public:
  Utf8Names() : locale_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (locale_ != nullptr) before_ = ::uselocale(locale_);
  }
  ~Utf8Names() {
    if (locale_ == nullptr) return;
    ::uselocale(before_);
    ::freelocale(locale_);
  }
  Utf8Names(const Utf8Names&) = delete;
  Utf8Names& operator=(const Utf8Names&) = delete;

 private:
  locale_t locale_ = nullptr, before_ = nullptr;
};

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& name)
      : archive_(::archive_read_new()), name_(name), left_(bytes.size()) {
    if (!archive_) throw OutOfMemory("{}: tar: no memory", name);
    ::archive_read_support_format_tar(archive_.get());
    ::archive_read_support_format_empty(archive_.get());
    // Other names are bytes to us.
    ::archive_read_set_format_option(archive_.get(), "tar", "hdrcharset", "BINARY");
    check(::archive_read_open_memory(archive_.get(), bytes.data(), bytes.size()));
  }

  std::vector<TarFile> all() {
    std::vector<TarFile> files;
    archive_entry* entry = nullptr;
    while (check(::archive_read_next_header(archive_.get(), &entry)) != ARCHIVE_EOF)
      if (::archive_entry_filetype(entry) == AE_IFREG && ::archive_entry_hardlink(entry) == nullptr)
        files.push_back({path_of(entry), contents_of(entry)});
    return files;
  }

 private:
  struct Free {
    void operator()(archive* one) const { ::archive_read_free(one); }
  };

  // A warning is damage that libarchive would leave out: a header, or a file's long name.
  int check(int status) const {
    if (status == ARCHIVE_OK || status == ARCHIVE_EOF) return status;
    const char* reason = ::archive_error_string(archive_.get());
    throw Corrupt("{}: tar: {}", name_, reason == nullptr ? "damaged" : reason);
  }

  std::string path_of(archive_entry* entry) const {
    const char* path = ::archive_entry_pathname(entry);
    if (path == nullptr || *path == '\0') throw Corrupt("{}: tar: a file has no name", name_);
    const std::filesystem::path parts(path);
    if (parts.is_absolute() || std::find(parts.begin(), parts.end(), "..") != parts.end())
      throw Corrupt("{}: tar: {}: leads out of the archive", name_, path);
    return path;
  }

  // A file with holes can say to be of any size in a few bytes.
  std::string contents_of(archive_entry* entry) {
    const auto size = static_cast<std::uint64_t>(::archive_entry_size(entry));
    if (size > left_)
      throw Corrupt("{}: tar: {}: says that it has {} bytes, more than the archive", name_,
                    path_of(entry), size);
    left_ -= size;
    std::string contents(size, '\0');
    const auto got = ::archive_read_data(archive_.get(), contents.data(), contents.size());
    check(static_cast<int>(std::min<la_ssize_t>(got, ARCHIVE_OK)));
    if (static_cast<std::uint64_t>(got) != size)
      throw Corrupt("{}: tar: {}: has {} bytes, expected {}", name_, path_of(entry), got, size);
    return contents;
  }

  Utf8Names names_;
  std::unique_ptr<archive, Free> archive_;
  const std::string& name_;
  std::uint64_t left_;  // of the archive's bytes, for files
};

}  // namespace

std::vector<TarFile> parse_tar(std::string_view bytes, const std::string& name) {
  return with_memory_for(name, [&] { return Reader(bytes, name).all(); });
}

}  // namespace lockstep::data::detail
