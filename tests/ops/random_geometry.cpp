// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/random_geometry.h"

#include <algorithm>

namespace lockstep::testing {
namespace {

using std::int64_t;

std::string list(const char* name, const SpatialList& values) {
  std::string text = std::string(name) + "[";
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i > 0 ? "," : "") + std::to_string(values[i]);
  return text + "]";
}

std::string shape(const char* name, int64_t first, int64_t second, SpatialList rest) {
  rest.insert(rest.begin(), {first, second});
  return list(name, rest);
}

int64_t product(const SpatialList& values) {
  int64_t total = 1;
  for (const int64_t value : values) total *= value;
  return total;
}

// Half of the kernel, none, or anything up to more than the kernel.
int64_t random_padding(Dice& dice, int64_t span) {
  const int64_t kind = dice.between(0, 9);
  if (kind < 3) return span / 2;
  return kind < 5 ? 0 : dice.between(0, span + 1);
}

void add_axis(Dice& dice, ConvGeometry& g) {
  const int64_t kernel = dice.one_of({1, 1, 2, 3, 3, 3, 4, 5, 7});
  const int64_t dilation = dice.one_of({1, 1, 1, 1, 1, 2, 3});
  const int64_t span = dilation * (kernel - 1) + 1;
  const int64_t padding = random_padding(dice, span);
  const int64_t least = std::max<int64_t>(1, span - 2 * padding);
  const int64_t most = dice.chance(50) ? span : 14;
  g.kernel.push_back(kernel);
  g.dilation.push_back(dilation);
  g.stride.push_back(dice.one_of({1, 1, 1, 1, 2, 2, 2, 3, 4}));
  g.padding.push_back(padding);
  g.input.push_back(dice.between(least, std::max(least, most)));
}

// Half of them whole vectors: what generated kernels are made for.
void choose_channels(Dice& dice, ConvGeometry& g) {
  const int64_t kind = dice.between(0, 9);
  if (kind < 4) {
    g.in_channels = dice.one_of({1, 3, 8, 16, 16, 16, 32});
    g.out_channels = dice.one_of({8, 16, 16, 16, 32});
  } else if (kind < 6) {
    g.in_channels = dice.one_of({1, 2, 3, 8, 16, 16, 17, 32, 33, 48, 64});
    g.out_channels = dice.one_of({1, 2, 3, 8, 16, 16, 17, 32, 33, 48, 64});
  } else if (kind < 8) {
    g.groups = dice.one_of({1, 3, 8, 16, 17, 32, 33});
    g.in_channels = g.groups;
    g.out_channels = g.groups * dice.one_of({1, 1, 1, 2});
  } else {
    g.groups = dice.one_of({2, 3, 4});
    g.in_channels = g.groups * dice.one_of({1, 2, 3, 8, 16, 17});
    g.out_channels = g.groups * dice.one_of({1, 2, 3, 8, 16, 17});
  }
}

ConvGeometry any_conv(Dice& dice) {
  ConvGeometry g;
  g.batch = dice.between(1, 3);
  choose_channels(dice, g);
  const int64_t axes = dice.one_of({1, 2, 2, 3, 3});
  for (int64_t i = 0; i < axes; ++i) add_axis(dice, g);
  return g;
}

}  // namespace

std::uint64_t Dice::next() {
  state_ += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

int64_t Dice::between(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
}

bool Dice::chance(int percent) { return between(0, 99) < percent; }

int64_t Dice::one_of(std::initializer_list<int64_t> values) {
  return values.begin()[between(0, static_cast<int64_t>(values.size()) - 1)];
}

SpatialList ConvGeometry::output() const {
  SpatialList sizes;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const int64_t span = dilation[i] * (kernel[i] - 1) + 1;
    sizes.push_back((input[i] + 2 * padding[i] - span) / stride[i] + 1);
  }
  return sizes;
}

int64_t ConvGeometry::products() const {
  return batch * out_channels * (in_channels / groups) * product(kernel) * product(output());
}

std::string ConvGeometry::str() const {
  return shape("x", batch, in_channels, input) + " " +
         shape("w", out_channels, in_channels / groups, kernel) + " " + list("stride", stride) +
         " " + list("padding", padding) + " " + list("dilation", dilation) +
         " groups=" + std::to_string(groups);
}

ConvGeometry random_conv(Dice& dice, int64_t most_products) {
  while (true) {
    ConvGeometry g = any_conv(dice);
    if (g.products() <= most_products) return g;
  }
}

std::string PoolGeometry::str() const {
  return shape("x", batch, channels, input) + " " + list("kernel", kernel) + " " +
         list("stride", stride) + " " + list("padding", padding) + " " +
         list("dilation", dilation) + " ceil_mode=" + std::to_string(ceil_mode) +
         " count_include_pad=" + std::to_string(count_include_pad);
}

PoolGeometry random_pool(Dice& dice) {
  PoolGeometry g;
  g.batch = dice.between(1, 3);
  g.channels = dice.one_of({1, 3, 8, 16, 17, 32, 33});
  const int64_t axes = dice.between(1, 3);
  for (int64_t i = 0; i < axes; ++i) {
    const int64_t kernel = dice.one_of({1, 2, 2, 3, 3, 4, 5, 7});
    const int64_t padding = dice.chance(40) ? 0 : dice.between(0, kernel - 1);
    const int64_t least = std::max<int64_t>(1, kernel - 2 * padding);
    g.kernel.push_back(kernel);
    g.padding.push_back(padding);
    g.stride.push_back(dice.one_of({1, 1, 2, 2, 3, 5}));
    g.input.push_back(dice.between(least, std::max<int64_t>(least, dice.chance(40) ? kernel : 12)));
  }
  g.ceil_mode = dice.chance(40);
  g.count_include_pad = dice.chance(50);
  const bool dilated = dice.chance(40);
  for (std::size_t i = 0; i < g.input.size(); ++i) {
    g.dilation.push_back(dilated ? dice.between(1, 3) : 1);
    // No window steps over the whole input.
    if (g.dilation[i] > 1) g.input[i] = std::max(g.input[i], g.dilation[i] * (g.kernel[i] - 1) + 1);
  }
  return g;
}

}  // namespace lockstep::testing
