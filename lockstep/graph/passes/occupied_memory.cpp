// SPDX-License-Identifier: Apache-2.0
#include "lockstep/graph/passes/occupied_memory.h"

#include <algorithm>

namespace lockstep::passes {

void ByteIntervals::add(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  const auto ends_before = [](const Interval& a, std::size_t place) { return a.end < place; };
  const auto first = std::lower_bound(all_.begin(), all_.end(), begin, ends_before);
  auto last = first;
  for (; last != all_.end() && last->begin <= end; ++last) {
    begin = std::min(begin, last->begin);
    end = std::max(end, last->end);
  }
  if (first == last) {
    all_.insert(first, {begin, end});
    return;
  }
  *first = {begin, end};
  all_.erase(first + 1, last);
}

std::size_t ByteIntervals::first_gap(std::size_t offset, std::size_t bytes) const {
  const auto ends_by = [](std::size_t place, const Interval& a) { return place < a.end; };
  auto next = std::upper_bound(all_.begin(), all_.end(), offset, ends_by);
  for (; next != all_.end() && next->begin < offset + bytes; ++next) offset = next->end;
  return offset;
}

OccupiedMemory::OccupiedMemory(std::size_t steps) {
  while (leaves_ < steps) leaves_ *= 2;
  nodes_.resize(2 * leaves_);
}

void OccupiedMemory::add(StepRange lifetime, std::size_t begin, std::size_t end) {
  add_at(1, {0, leaves_}, lifetime, begin, end);
}

void OccupiedMemory::add_at(std::size_t node, StepRange own, StepRange lifetime, std::size_t begin,
                            std::size_t end) {
  if (lifetime.end <= own.begin || own.end <= lifetime.begin) return;
  nodes_[node].some.add(begin, end);
  if (lifetime.begin <= own.begin && own.end <= lifetime.end) {
    nodes_[node].whole.add(begin, end);
    return;
  }
  const std::size_t middle = (own.begin + own.end) / 2;
  add_at(2 * node, {own.begin, middle}, lifetime, begin, end);
  add_at(2 * node + 1, {middle, own.end}, lifetime, begin, end);
}

void OccupiedMemory::collect(std::size_t node, StepRange own, StepRange lifetime,
                             std::vector<const ByteIntervals*>& found) const {
  if (lifetime.end <= own.begin || own.end <= lifetime.begin) return;
  if (lifetime.begin <= own.begin && own.end <= lifetime.end) {
    found.push_back(&nodes_[node].some);
    return;
  }
  found.push_back(&nodes_[node].whole);
  const std::size_t middle = (own.begin + own.end) / 2;
  collect(2 * node, {own.begin, middle}, lifetime, found);
  collect(2 * node + 1, {middle, own.end}, lifetime, found);
}

std::size_t OccupiedMemory::lowest_gap(StepRange lifetime, std::size_t bytes) const {
  std::vector<const ByteIntervals*> in_use;
  collect(1, {0, leaves_}, lifetime, in_use);
  std::size_t offset = 0;
  for (std::size_t agreed = 0, i = 0; agreed < in_use.size(); i = (i + 1) % in_use.size()) {
    const std::size_t gap = in_use[i]->first_gap(offset, bytes);
    agreed = gap == offset ? agreed + 1 : 1;
    offset = gap;
  }
  return offset;
}

}  // namespace lockstep::passes
