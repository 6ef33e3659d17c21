// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/base/gzip.h"

namespace lockstep::data {

// Names of any kind and their numbers, 0 to size - 1, in the order in which they came.
class IdList {
 public:
  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  // The name's number, a new one where it has none.
  std::int64_t add(std::string_view name);
  std::optional<std::int64_t> find(std::string_view name) const;
  const std::string& name(std::int64_t number) const {
    return names_.at(static_cast<std::size_t>(number));
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> numbers_;
};

// Who gave what to which, row by row.
struct Ratings {
  IdList users, items;
  std::vector<std::int64_t> user, item;
  std::vector<float> value;        // empty of pairs without ratings
  std::vector<std::int64_t> time;  // seconds since 1970; empty where the file has none
  std::vector<std::int64_t> line;  // of the file, from 1

  std::size_t size() const { return user.size(); }
  bool has_time() const { return !time.empty(); }
};

struct RatingsOptions {
  std::int64_t max_inflated = kMaxInflated;  // bytes of a gzip file's contents
  bool ratings = true;    // false: pairs of user and item are enough; what follows is not read
  bool skip_bad = false;  // a bad line is a warning, and left out
  std::function<void(const std::string&)> warn = {};
  // A user or item that is not among these makes a line bad; null: the file's own.
  const IdList* users = nullptr;
  const IdList* items = nullptr;
};

// Lines of `user item rating [time]`, separated by `::`, tabs, commas, semicolons or blanks, as the
// first line has them; ids are any texts. A header line is one whose columns have names, user, item
// (movie, book, product ...) and rating among them, and tells their order; without one the order is
// as above. Plain or gzip. Throws NotFound, IoError, or Corrupt that begins with `path:line`: a
// missing column, a rating that is no finite number, a pair that was rated before.
Ratings read_ratings(const std::string& path, const RatingsOptions& options = {});
Ratings parse_ratings(std::string_view text, const std::string& name,
                      const RatingsOptions& options = {});

}  // namespace lockstep::data
