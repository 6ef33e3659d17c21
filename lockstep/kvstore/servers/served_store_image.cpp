// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/kvstore/servers/served_store.h"

namespace lockstep::kvstore {

wire::StoreImage ServedStore::save(comm::Payload& floats) {
  wire::StoreImage image{.present = {present_.begin(), present_.end()},
                         .gone = {gone_.begin(), gone_.end()},
                         .rescale = rule_.rescale};
  if (rule_.rule) image.rule.push_back(wire::Rule::of(*rule_.rule));
  for (auto& [key, entry] : entries_) {
    const StoreUpdate& update = entry.value.update();
    image.entries.push_back({.key = key,
                             .rows = entry.value.rows(),
                             .width = entry.value.width(),
                             .version = entry.version,
                             .clocks = entry.clocks,
                             .steps = update.steps(),
                             .slots = static_cast<std::uint32_t>(update.slots().size())});
    add_copy(floats, entry.value.data());
    for (const std::vector<float>& slot : update.slots()) add_copy(floats, slot);
    for (const auto& [offset, part] : entry.round)
      if (part.is_added) image.entries.back().added.push_back(offset);
    if (!image.entries.back().added.empty()) add_copy(floats, entry.value.parts());
  }
  return image;
}

ServedStore::ServedStore(int workers, const wire::StoreImage& image, FloatParts& floats)
    : ServedStore(workers) {
  present_.insert(image.present.begin(), image.present.end());
  gone_.insert(image.gone.begin(), image.gone.end());
  if (!image.rule.empty()) rule_ = {image.rule[0].make(), image.rescale};
  for (const wire::EntryImage& one : image.entries) {
    if (one.clocks.size() != workers_)
      throw Corrupt("key {}: clocks of {} workers", one.key, one.clocks.size());
    Entry entry{ServedValue(one.rows, one.width, floats), one.clocks, one.version};
    std::vector<std::vector<float>> slots(one.slots, std::vector<float>(entry.value.floats()));
    for (std::vector<float>& slot : slots) floats.take(slot);
    entry.value.update().restore(one.steps, std::move(slots));
    if (!one.added.empty()) floats.take(entry.value.parts());
    for (const std::uint64_t offset : one.added) {
      const std::size_t left = entry.value.floats() - std::min(offset, entry.value.floats());
      entry.round[offset] = {.count = std::min<std::size_t>(wire::kFloatsAtOnce, left),
                             .is_added = true};
    }
    entries_.emplace(one.key, std::move(entry));
  }
}

}  // namespace lockstep::kvstore
