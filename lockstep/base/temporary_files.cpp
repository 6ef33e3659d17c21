// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/temporary_files.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <system_error>

namespace lockstep {
namespace {

constexpr std::string_view kMark = ".tmp";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }

std::string own_mark() { return fmt::format("{}{}-", kMark, ::getpid()); }

}  // namespace

std::string temporary_name(std::string_view path) {
  std::random_device random;
  return fmt::format("{}{}{:08x}", path, own_mark(), random());
}

std::optional<std::string> lasting_name(std::string_view name) {
  const std::size_t mark = name.rfind(kMark);
  if (mark == std::string_view::npos || mark == 0) return {};
  const std::string_view rest = name.substr(mark + kMark.size());
  const std::size_t dash = rest.find('-');
  if (dash == std::string_view::npos || dash == 0 || rest.size() != dash + 9) return {};
  const std::string_view process = rest.substr(0, dash), number = rest.substr(dash + 1);
  if (!std::ranges::all_of(process, is_digit) || !std::ranges::all_of(number, is_hex)) return {};
  return std::string(name.substr(0, mark));
}

void remove_temporaries(const std::string& folder,
                        const std::function<bool(const std::string&)>& ours) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    const std::optional<std::string> lasting = lasting_name(name);
    if (!lasting || name.find(own_mark()) != std::string::npos || !ours(*lasting)) continue;
    if (entry.is_regular_file(ignored)) std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace lockstep
