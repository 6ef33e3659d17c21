// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lockstep/base/vector_clones.h"
#include "lockstep/kvstore/codecs/codecs.h"

// The largest part of gradient and residual together, with places; the rest waits in the residual.
// Sizes are compared as integers: floats without their sign have that order, and what is no number
// is larger than all. A histogram of the upper bits tells in which class the smallest one that is
// sent lies, and only that class is sorted. Of equal ones the first are sent.
namespace lockstep::kvstore {
namespace {

constexpr int kClassBits = 11;
constexpr int kShift = 31 - kClassBits;
constexpr std::size_t kTile = 256;

struct Item {
  std::uint32_t place;
  float value;
};

std::uint32_t size_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu; }

LOCKSTEP_VECTOR_CLONES void add(const float* values, float* residual, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) residual[i] += values[i];
}

LOCKSTEP_VECTOR_CLONES std::uint32_t largest(const float* values, std::size_t count) {
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < count; ++i)
    most = std::max(most, std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffu);
  return most;
}

using Histogram = std::array<std::uint32_t, 1u << kClassBits>;

// Four, so that equal neighbours do not wait for each other.
Histogram count_classes(std::span<const float> values) {
  std::array<Histogram, 4> parts{};
  std::size_t i = 0;
  for (; i + 4 <= values.size(); i += 4)
    for (std::size_t k = 0; k < 4; ++k) ++parts[k][size_of(values[i + k]) >> kShift];
  for (; i < values.size(); ++i) ++parts[0][size_of(values[i]) >> kShift];
  for (std::size_t c = 0; c < parts[0].size(); ++c)
    parts[0][c] += parts[1][c] + parts[2][c] + parts[3][c];
  return parts[0];
}

// Calls f with the place of each value of at least this size, in order.
template <class F>
void for_each_from(std::span<const float> values, std::uint32_t least, const F& f) {
  for (std::size_t begin = 0; begin < values.size(); begin += kTile) {
    const std::size_t end = std::min(values.size(), begin + kTile);
    if (largest(values.data() + begin, end - begin) < least) continue;
    for (std::size_t i = begin; i < end; ++i)
      if (size_of(values[i]) >= least) f(i);
  }
}

// The smallest size that is sent, and how many of that size are.
struct Cut {
  std::uint32_t size = 0;
  std::size_t equal = 0;
};

Cut find_cut(std::span<const float> values, std::size_t k) {
  const Histogram classes = count_classes(values);
  std::size_t above = 0, at = classes.size() - 1;
  while (above + classes[at] < k) above += classes[at--];
  std::vector<std::uint32_t> members;
  members.reserve(classes[at]);
  for_each_from(values, static_cast<std::uint32_t>(at) << kShift, [&](std::size_t i) {
    if (size_of(values[i]) >> kShift == at) members.push_back(size_of(values[i]));
  });
  const auto last = members.begin() + static_cast<std::ptrdiff_t>(k - above - 1);
  std::nth_element(members.begin(), last, members.end(), std::greater<>());
  const auto larger = std::count_if(members.begin(), last, [&](auto m) { return m > *last; });
  return {*last, k - above - static_cast<std::size_t>(larger)};
}

class TopK final : public Codec {
 public:
  explicit TopK(double ratio) : ratio_(ratio) {}
  std::size_t payload_bytes(std::size_t count) const override {
    return items_of(count) * sizeof(Item);
  }
  std::size_t grain() const override { return 0; }
  bool is_rounding() const override { return false; }

  void encode(std::span<const float> values, std::span<float> residual,
              std::span<std::byte> payload) const override {
    check_residual("topk", values.size(), residual.size(), payload.size(), *this);
    check(values.size() < (std::uint64_t{1} << 32), "topk: a place has 32 bits");
    if (values.empty()) return;
    add(values.data(), residual.data(), values.size());
    Cut cut = find_cut(residual, items_of(values.size()));
    std::byte* to = payload.data();
    for_each_from(residual, cut.size, [&](std::size_t i) {
      if (size_of(residual[i]) == cut.size && cut.equal == 0) return;
      if (size_of(residual[i]) == cut.size) --cut.equal;
      const Item item{static_cast<std::uint32_t>(i), residual[i]};
      std::memcpy(to, &item, sizeof item);
      to += sizeof item;
      residual[i] = 0.0f;
    });
  }

  void decode_add(std::span<const std::byte> payload, std::span<float> target) const override {
    check_payload("topk", *this, payload.size(), target.size());
    std::vector<Item> items(payload.size() / sizeof(Item));
    if (!items.empty()) std::memcpy(items.data(), payload.data(), payload.size());
    std::uint64_t next = 0;
    for (const Item& item : items) {
      if (item.place < next || item.place >= target.size())
        throw Corrupt("topk: the payload has place {}, expected one from {} to {}", item.place,
                      next, target.size());
      next = std::uint64_t{item.place} + 1;
    }
    for (const Item& item : items) target[item.place] += item.value;
  }

 private:
  std::size_t items_of(std::size_t count) const {
    const auto items = static_cast<std::size_t>(std::ceil(ratio_ * static_cast<double>(count)));
    return std::min(items, count);
  }

  double ratio_;
};

}  // namespace

std::unique_ptr<Codec> top_k_codec(double ratio) { return std::make_unique<TopK>(ratio); }

}  // namespace lockstep::kvstore
