// SPDX-License-Identifier: Apache-2.0
// libarchive's functions, as its header declares them: the library, and the XML and Unicode ones
// that it needs, are loaded when one is called.
#include <archive.h>
#include <archive_entry.h>

#include "lockstep/base/lazy_library.h"

#ifndef LOCKSTEP_LIBRARY
#define LOCKSTEP_LIBRARY "libarchive.so.13"
#endif

namespace {

constinit lockstep::LazyLibrary library("archive", LOCKSTEP_LIBRARY);

template <class Function>
using Call = lockstep::LazyCall<Function>;

}  // namespace

extern "C" {

archive* archive_read_new() {
  static constinit Call<decltype(archive_read_new)> call(library, "archive_read_new");
  return call();
}

int archive_read_free(archive* reader) {
  static constinit Call<decltype(archive_read_free)> call(library, "archive_read_free");
  return call(reader);
}

int archive_read_support_format_empty(archive* reader) {
  static constinit Call<decltype(archive_read_support_format_empty)> call(
      library, "archive_read_support_format_empty");
  return call(reader);
}

int archive_read_support_format_tar(archive* reader) {
  static constinit Call<decltype(archive_read_support_format_tar)> call(
      library, "archive_read_support_format_tar");
  return call(reader);
}

int archive_read_set_format_option(archive* reader, const char* module, const char* option,
                                   const char* value) {
  static constinit Call<decltype(archive_read_set_format_option)> call(
      library, "archive_read_set_format_option");
  return call(reader, module, option, value);
}

int archive_read_open_memory(archive* reader, const void* bytes, size_t size) {
  static constinit Call<decltype(archive_read_open_memory)> call(library,
                                                                 "archive_read_open_memory");
  return call(reader, bytes, size);
}

int archive_read_next_header(archive* reader, archive_entry** entry) {
  static constinit Call<decltype(archive_read_next_header)> call(library,
                                                                 "archive_read_next_header");
  return call(reader, entry);
}

la_ssize_t archive_read_data(archive* reader, void* bytes, size_t size) {
  static constinit Call<decltype(archive_read_data)> call(library, "archive_read_data");
  return call(reader, bytes, size);
}

const char* archive_error_string(archive* reader) {
  static constinit Call<decltype(archive_error_string)> call(library, "archive_error_string");
  return call(reader);
}

const char* archive_entry_pathname(archive_entry* entry) {
  static constinit Call<decltype(archive_entry_pathname)> call(library, "archive_entry_pathname");
  return call(entry);
}

const char* archive_entry_hardlink(archive_entry* entry) {
  static constinit Call<decltype(archive_entry_hardlink)> call(library, "archive_entry_hardlink");
  return call(entry);
}

la_int64_t archive_entry_size(archive_entry* entry) {
  static constinit Call<decltype(archive_entry_size)> call(library, "archive_entry_size");
  return call(entry);
}

__LA_MODE_T archive_entry_filetype(archive_entry* entry) {
  static constinit Call<decltype(archive_entry_filetype)> call(library, "archive_entry_filetype");
  return call(entry);
}

}  // extern "C"
