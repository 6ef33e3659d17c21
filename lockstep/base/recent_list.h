// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>

namespace lockstep {

// A few things that are expensive to make, the one used last in front. Where there are more than
// the limit, those that were not used for the longest time are dropped. Things stay where they are
// in memory.
template <class T>
class RecentList {
 public:
  explicit RecentList(std::size_t limit) : limit_(std::max<std::size_t>(1, limit)) {}

  // The first that `is_it` holds for, which comes to the front; null where there is none.
  template <class F>
  T* find(const F& is_it) {
    const auto found = std::find_if(things_.begin(), things_.end(), is_it);
    if (found == things_.end()) return nullptr;
    things_.splice(things_.begin(), things_, found);
    return &things_.front();
  }
  T& add(T thing) {
    things_.push_front(std::move(thing));
    while (things_.size() > limit_) things_.pop_back();
    return things_.front();
  }

  T* last_used() { return things_.empty() ? nullptr : &things_.front(); }
  const T* last_used() const { return things_.empty() ? nullptr : &things_.front(); }
  std::size_t size() const { return things_.size(); }
  void clear() { things_.clear(); }
  auto begin() const { return things_.begin(); }
  auto end() const { return things_.end(); }

 private:
  std::size_t limit_;
  std::list<T> things_;
};

}  // namespace lockstep
