// SPDX-License-Identifier: Apache-2.0
#include "lockstep/kvstore/servers/served_value.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "lockstep/base/shard_tree.h"
#include "lockstep/comm/fold.h"
#include "lockstep/kvstore/group_sum.h"
#include "lockstep/kvstore/servers/floats.h"

namespace lockstep::kvstore {
namespace {

// In the canonical tree's order, a block at a time that stays in the cache.
void sum_values(const std::vector<SentFloats>& values, std::span<float> result) {
  if (values.size() == 1) return copy_floats(values[0].payload, values[0].part, result);
  constexpr std::size_t kBlock = optim::kPieceElements;
  std::vector<std::vector<float>> scratch(values.size());
  std::vector<std::span<const float>> sources(values.size());
  for (std::size_t begin = 0; begin < result.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, result.size() - begin);
    for (std::size_t v = 0; v < values.size(); ++v)
      sources[v] = {floats_at(values[v].payload, values[v].part, begin, count, scratch[v]), count};
    sum_in_tree(sources, result.subspan(begin, count));
  }
}

}  // namespace

ServedValue::ServedValue(std::size_t rows, std::size_t width, const comm::Payload& payload)
    : rows_(rows), width_(width) {
  check_floats(payload, 1, floats());
  data_ = std::make_shared<FlatBuffer>(floats());
  copy_floats(payload, 1, {data_->data(), floats()});
}

ServedValue::ServedValue(std::size_t rows, std::size_t width, FloatParts& parts)
    : rows_(rows), width_(width), data_(std::make_shared<FlatBuffer>(rows * width)) {
  parts.take({data_->data(), floats()});
}

std::span<const float> ServedValue::data() {
  settle();
  return {data_->data(), floats()};
}

bool ServedValue::is(const comm::Payload& payload) {
  if (payload.parts() < 2 || payload.size(1) != floats() * sizeof(float)) return false;
  std::vector<float> scratch;
  const float* other = floats_at(payload, 1, 0, floats(), scratch);
  return floats() == 0 || std::memcmp(other, data().data(), floats() * sizeof(float)) == 0;
}

void ServedValue::copy_out(Answered& from, FlatBuffer& to) const {
  for (const auto& [offset, floats] : std::exchange(from, {}))
    std::memcpy(to.data() + offset, floats.buffer.bytes.data(), floats.buffer.bytes.size());
}

void ServedValue::settle() {
  if (!answered_.empty()) own(true);
}

std::span<float> ServedValue::own(bool keep) {
  const auto one_more = data_;  // in order after whoever has let go of it
  if (one_more.use_count() != 2) {
    const auto fresh = std::make_shared<FlatBuffer>(floats());
    if (keep && data_) std::copy_n(data_->data(), floats(), fresh->data());
    data_ = fresh;
  }
  if (keep) copy_out(answered_, *data_);
  answered_.clear();
  return {data_->data(), floats()};
}

void ServedValue::apply(const std::vector<SentFloats>& values, const PushRule& rule) {
  if (!rule.rule) return sum_values(values, own(false));
  std::vector<float> scratch;
  if (values.size() == 1)
    return apply_sum({floats_at(values[0].payload, values[0].part, 0, floats(), scratch), floats()},
                     rule);
  const auto sum = std::make_unique_for_overwrite<float[]>(floats());
  sum_values(values, {sum.get(), floats()});
  apply_sum({sum.get(), floats()}, rule);
}

std::span<float> ServedValue::parts() {
  const auto one_more = parts_;  // as in own()
  if (one_more.use_count() != 2) parts_ = std::make_shared<FlatBuffer>(floats());
  copy_out(new_answered_, *parts_);
  return {parts_->data(), floats()};
}

void ServedValue::add_part(std::size_t offset, std::size_t count,
                           const std::vector<SentFloats>& values) {
  const auto in_answers = std::exchange(new_answered_, {});  // they stay where they are
  sum_values(values, parts().subspan(offset, count));
  new_answered_ = in_answers;
}

void ServedValue::add_part_in(const AnsweredFloats& answer, std::size_t offset,
                              const std::vector<SentFloats>& values) {
  const std::span<std::byte> bytes = answer.buffer.bytes;
  sum_values(values, {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)});
  new_answered_[offset] = answer;
}

// What was the value is the room for the next one's parts, if nobody reads it.
void ServedValue::apply_parts(const PushRule& rule) {
  if (rule.rule) return apply_sum(parts(), rule);
  std::swap(data_, parts_);
  answered_ = std::exchange(new_answered_, {});
}

void ServedValue::apply_sum(std::span<const float> sum, const PushRule& rule) {
  if (rule.rule) return update_.run(rule.rule, rule.rescale, sum, own(true));
  std::copy(sum.begin(), sum.end(), own(false).begin());
}

void ServedValue::apply_rows(const std::vector<SentRows>& pushes, const PushRule& rule) {
  std::vector<std::vector<float>> scratch(pushes.size());
  std::map<std::uint64_t, std::vector<std::span<const float>>> found;
  for (std::size_t p = 0; p < pushes.size(); ++p) {
    const auto& [ids, sent] = pushes[p];
    const float* row = floats_at(sent.payload, sent.part, 0, ids.size() * width_, scratch[p]);
    for (const std::uint64_t id : ids) {
      found[id].push_back({row, width_});
      row += width_;
    }
  }
  const std::span<float> data = own(rule.rule != nullptr);
  if (!rule.rule) std::fill(data.begin(), data.end(), 0.0F);
  if (rule.rule) update_.begin(rule.rule, rule.rescale, data.size());
  std::vector<float> sum(width_);
  for (const auto& [id, parts] : found) {
    const std::span<float> to = data.subspan(id * width_, width_);
    sum_in_tree(parts, rule.rule ? std::span(sum) : to);
    if (rule.rule) update_.run_part(id * width_, sum, to);
  }
}

// Where it lies in one answer, from there.
void ServedValue::add_to(comm::Payload& payload, std::size_t offset, std::size_t count) {
  const auto after = answered_.upper_bound(offset);
  if (after != answered_.begin()) {
    const auto& [begin, floats] = *std::prev(after);
    const std::size_t skip = (offset - begin) * sizeof(float), bytes = count * sizeof(float);
    if (skip + bytes <= floats.buffer.bytes.size()) {
      payload.add(floats.buffer.bytes.subspan(skip, bytes), floats.buffer.owner);
      return;
    }
  }
  add_floats(payload, data().subspan(offset, count), data_);
}

void ServedValue::add_rows_to(comm::Payload& payload, const std::vector<std::uint64_t>& ids) {
  const std::span<const float> from = data();
  const auto rows = std::make_shared<std::vector<float>>(ids.size() * width_);
  float* to = rows->data();
  for (const std::uint64_t id : ids) to = std::copy_n(from.data() + id * width_, width_, to);
  add_floats(payload, *rows, rows);
}

}  // namespace lockstep::kvstore
