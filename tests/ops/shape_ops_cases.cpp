// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/ops/shape_attrs.h"
#include "tests/ops/coordinates.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;
using Places = std::function<Ints(const Ints&)>;  // where an element of the output comes from

class Cases {
 public:
  // An op whose output elements are input elements.
  void add(const std::string& op, const std::string& label, const Tensor& x, const Attrs& attrs,
           const Shape& shape, const Places& source) {
    cases_.push_back({.op = op,
                      .label = label,
                      .inputs = {x},
                      .attrs = attrs,
                      .reference = [=](const Tensors& in) -> Tensors {
                        return {from_places(in[0], shape, source)};
                      }});
  }

  // An op that adds each input element to an output element.
  void add_sum(const std::string& op, const std::string& label, const Tensor& x, const Attrs& attrs,
               const Shape& shape, const Places& target) {
    cases_.push_back({.op = op,
                      .label = label,
                      .inputs = {x},
                      .attrs = attrs,
                      .reference = [=](const Tensors& in) -> Tensors {
                        return {added_at_places(in[0], shape, target)};
                      }});
  }

  void add(OpCase row) { cases_.push_back(std::move(row)); }

  std::vector<OpCase> take() { return std::move(cases_); }

 private:
  std::vector<OpCase> cases_;
};

Tensor numbers(const Shape& shape) { return random_tensor(shape, 7); }

Tensor flags(const Shape& shape) {
  const Tensor result = Tensor::empty(shape, DType::boolean);
  result.assign(random_indices(shape, 3, 0, 2));
  return result;
}

void add_reshape(Cases& cases, const std::string& label, const Tensor& x, const Ints& attr,
                 const Shape& shape) {
  cases.add("reshape", label, x, Attrs::of(ReshapeAttrs{attr}), shape, [=](const Ints& at) {
    std::int64_t left = flat(shape, at);
    Ints from(static_cast<std::size_t>(x.rank()));
    for (int axis = x.rank() - 1; axis >= 0; left /= x.shape()[axis--])
      from[static_cast<std::size_t>(axis)] = left % x.shape()[axis];
    return from;
  });
}

void reshapes(Cases& cases) {
  add_reshape(cases, "merged", numbers({2, 3, 4}), {6, 4}, {6, 4});
  add_reshape(cases, "split", numbers({6, 4}), {3, 2, 2, 2}, {3, 2, 2, 2});
  add_reshape(cases, "open size", numbers({2, 3, 4}), {4, -1}, {4, 6});
  add_reshape(cases, "open size of 1", numbers({2, 3}), {3, 2, -1}, {3, 2, 1});
  add_reshape(cases, "scalar", numbers({}), {1, 1}, {1, 1});
  add_reshape(cases, "to a scalar", numbers({1}), {}, {});
  add_reshape(cases, "size 0", numbers({0, 3}), {3, 0, 2}, {3, 0, 2});
  add_reshape(cases, "large", numbers({37, 27}), {999}, {999});
  add_reshape(cases, "integers", random_indices({4, 3}, 1, -9, 9), {2, 6}, {2, 6});
}

void add_transpose(Cases& cases, const std::string& label, const Tensor& x, const Ints& attr,
                   const Ints& order) {
  Shape shape;
  for (std::int64_t axis : order) shape.push_back(x.shape()[static_cast<int>(axis)]);
  cases.add("transpose", label, x, Attrs::of(TransposeAttrs{attr}), shape, [=](const Ints& at) {
    Ints from(at.size());
    for (std::size_t i = 0; i < at.size(); ++i) from[static_cast<std::size_t>(order[i])] = at[i];
    return from;
  });
}

void transposes(Cases& cases) {
  add_transpose(cases, "matrix", numbers({3, 5}), {}, {1, 0});
  add_transpose(cases, "large matrix", numbers({37, 69}), {}, {1, 0});
  add_transpose(cases, "reversed", numbers({2, 3, 4}), {}, {2, 1, 0});
  add_transpose(cases, "heads", numbers({2, 5, 3, 4}), {0, 2, 1, 3}, {0, 2, 1, 3});
  add_transpose(cases, "channels last", numbers({2, 3, 4, 5}), {0, 2, 3, 1}, {0, 2, 3, 1});
  add_transpose(cases, "negative axes", numbers({2, 3, 4}), {-1, 0, -2}, {2, 0, 1});
  add_transpose(cases, "vector", numbers({5}), {}, {0});
  add_transpose(cases, "scalar", numbers({}), {}, {});
  add_transpose(cases, "size 0", numbers({2, 0, 3}), {2, 0, 1}, {2, 0, 1});
  add_transpose(cases, "booleans", flags({19, 23}), {}, {1, 0});
}

void add_expand(Cases& cases, const std::string& label, const Tensor& x, const Shape& shape) {
  cases.add("expand", label, x, Attrs::of(ExpandAttrs{shape.vector()}), shape, [=](const Ints& at) {
    Ints from(at.end() - x.rank(), at.end());
    for (int i = 0; i < x.rank(); ++i)
      if (x.shape()[i] == 1) from[static_cast<std::size_t>(i)] = 0;
    return from;
  });
}

void expands(Cases& cases) {
  add_expand(cases, "new axis", numbers({3}), {2, 3});
  add_expand(cases, "both sides", numbers({1, 3, 1}), {4, 3, 5});
  add_expand(cases, "scalar", numbers({}), {2, 2});
  add_expand(cases, "size 0", numbers({1, 3}), {0, 3});
  add_expand(cases, "as it is", numbers({2, 3}), {2, 3});
  add_expand(cases, "long rows", numbers({3, 1}), {3, 1000});
}

void add_squeeze(Cases& cases, const std::string& label, const Shape& from, const Ints& axes,
                 const Ints& dropped) {
  Shape shape;
  for (int i = 0; i < from.rank(); ++i)
    if (std::find(dropped.begin(), dropped.end(), i) == dropped.end()) shape.push_back(from[i]);
  cases.add("squeeze", label, numbers(from), Attrs::of(SqueezeAttrs{axes}), shape, [=](Ints at) {
    for (std::int64_t axis : dropped) at.insert(at.begin() + axis, 0);
    return at;
  });
}

void add_expand_dims(Cases& cases, const std::string& label, const Shape& from, int axis,
                     int place) {
  Shape shape = from;
  shape.insert(place, 1);
  cases.add("expand_dims", label, numbers(from), Attrs::of(ExpandDimsAttrs{axis}), shape,
            [=](Ints at) {
              at.erase(at.begin() + place);
              return at;
            });
}

void size_one_axes(Cases& cases) {
  add_squeeze(cases, "all", {1, 3, 1, 2}, {}, {0, 2});
  add_squeeze(cases, "named", {1, 3, 1}, {-1}, {2});
  add_squeeze(cases, "to a scalar", {1, 1}, {0, 1}, {0, 1});
  add_squeeze(cases, "none to drop", {2, 3}, {}, {});
  add_squeeze(cases, "size 0", {1, 0}, {0}, {0});
  add_expand_dims(cases, "front", {2, 3}, 0, 0);
  add_expand_dims(cases, "middle", {2, 3}, 1, 1);
  add_expand_dims(cases, "end", {2, 3}, -1, 2);
  add_expand_dims(cases, "scalar", {}, 0, 0);
  add_expand_dims(cases, "size 0", {0}, 1, 1);
}

struct Range {
  std::int64_t begin, end, step;  // as written
  std::int64_t first, count;      // what it means on that axis
};

// Rows for slice, and for slice_backward on a gradient of the slice's shape.
void add_slice(Cases& cases, const std::string& label, const Shape& from,
               const std::vector<Range>& ranges) {
  Ints begin, end, step;
  Shape shape = from;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    begin.push_back(ranges[i].begin);
    end.push_back(ranges[i].end);
    step.push_back(ranges[i].step);
    shape[static_cast<int>(i)] = ranges[i].count;
  }
  const Places source = [=](Ints at) {
    for (std::size_t i = 0; i < ranges.size(); ++i)
      at[i] = ranges[i].first + at[i] * ranges[i].step;
    return at;
  };
  cases.add("slice", label, numbers(from), Attrs::of(SliceAttrs{begin, end, step}), shape, source);
  cases.add_sum("slice_backward", label, numbers(shape),
                Attrs::of(SliceBackwardAttrs{from.vector(), begin, end, step}), from, source);
}

void slices(Cases& cases) {
  add_slice(cases, "rows", {5, 3}, {{1, 4, 1, 1, 3}});
  add_slice(cases, "columns", {5, 40}, {{0, 5, 1, 0, 5}, {3, 40, 1, 3, 37}});
  add_slice(cases, "steps", {7, 8}, {{1, 7, 2, 1, 3}, {0, 8, 3, 0, 3}});
  add_slice(cases, "from the end", {7}, {{-3, -1, 1, 4, 2}});
  add_slice(cases, "backwards", {7, 2}, {{5, -100, -2, 5, 3}, {1, -3, -1, 1, 2}});
  add_slice(cases, "clamped", {4}, {{-9, 99, 1, 0, 4}});
  add_slice(cases, "huge step", {4}, {{1, 4, INT64_MAX, 1, 1}});
  add_slice(cases, "nothing", {4, 2}, {{3, 1, 1, 3, 0}});
  add_slice(cases, "of nothing", {0, 2}, {{0, 5, 1, 0, 0}});
  add_slice(cases, "whole", {3, 2}, {});
  cases.add("slice", "no steps", numbers({4, 3}), Attrs::of(SliceAttrs{{1}, {3}, {}}), {2, 3},
            [](const Ints& at) {
              return Ints{at[0] + 1, at[1]};
            });
}

void add_flip(Cases& cases, const std::string& label, const Shape& shape, const Ints& attr,
              const Ints& axes) {
  cases.add("flip", label, numbers(shape), Attrs::of(FlipAttrs{attr}), shape, [=](Ints at) {
    for (std::int64_t axis : axes) {
      auto& place = at[static_cast<std::size_t>(axis)];
      place = shape[static_cast<int>(axis)] - 1 - place;
    }
    return at;
  });
}

void add_roll(Cases& cases, const std::string& label, const Shape& shape, const Ints& shifts,
              const Ints& axes) {
  const Attrs attrs = Attrs::of(RollAttrs{shifts, axes});
  cases.add("roll", label, numbers(shape), attrs, shape, [=](Ints at) {
    if (axes.empty()) {
      const std::int64_t n = shape.numel();
      std::int64_t place = ((flat(shape, at) - shifts[0]) % n + n) % n;
      for (int axis = shape.rank() - 1; axis >= 0; place /= shape[axis--])
        at[static_cast<std::size_t>(axis)] = place % shape[axis];
    }
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const int axis = normalize_axis("", axes[i], shape.rank());
      std::int64_t& place = at[static_cast<std::size_t>(axis)];
      place = ((place - shifts[i]) % shape[axis] + shape[axis]) % shape[axis];
    }
    return at;
  });
}

void rolls(Cases& cases) {
  add_roll(cases, "one axis", {3, 4}, {1}, {-1});
  add_roll(cases, "backwards", {5, 3}, {-7}, {0});
  add_roll(cases, "two axes", {3, 4, 5}, {2, -1}, {2, 0});
  add_roll(cases, "one axis twice", {4, 3}, {1, 2}, {0, 0});
  add_roll(cases, "all as one", {3, 5}, {-4}, {});
  add_roll(cases, "not at all", {3, 5}, {10}, {1});
  add_roll(cases, "size 0", {0, 3}, {1}, {0});
  add_roll(cases, "scalar", {}, {3}, {});
}

void flips(Cases& cases) {
  add_flip(cases, "one axis", {3, 4}, {-1}, {1});
  add_flip(cases, "all", {2, 3, 2}, {}, {0, 1, 2});
  add_flip(cases, "size 0", {2, 0}, {0}, {0});
  add_flip(cases, "scalar", {}, {}, {});
  cases.add("stop_gradient", "as it is", numbers({3, 4}), Attrs::of(StopGradientAttrs{}), {3, 4},
            [](const Ints& at) { return at; });
}

void add_concat(Cases& cases, const std::string& label, const Tensors& parts, int axis, int place) {
  Shape shape = parts[0].shape();
  shape[place] = 0;
  for (const Tensor& part : parts) shape[place] += part.shape()[place];
  const auto reference = [=](const Tensors& in) -> Tensors {
    Array result(shape, in[0].dtype());
    std::int64_t start = 0;
    for (const Tensor& part : in) {
      Array values(part);
      for_each_coordinate(part.shape(), [&](Ints at) {
        const double value = values(at);
        at[static_cast<std::size_t>(place)] += start;
        result(at) = value;
      });
      start += part.shape()[place];
    }
    return {result.tensor()};
  };
  cases.add({.op = "concat",
             .label = label,
             .inputs = parts,
             .attrs = Attrs::of(ConcatAttrs{axis}),
             .reference = reference});
}

void add_split(Cases& cases, const std::string& label, const Tensor& x, const Ints& sizes, int axis,
               int place) {
  const auto reference = [=](const Tensors& in) {
    Tensors parts;
    std::int64_t start = 0;
    for (std::int64_t size : sizes) {
      Shape shape = x.shape();
      shape[place] = size;
      parts.push_back(from_places(in[0], shape, [&](Ints at) {
        at[static_cast<std::size_t>(place)] += start;
        return at;
      }));
      start += size;
    }
    return parts;
  };
  cases.add({.op = "split",
             .label = label,
             .inputs = {x},
             .attrs = Attrs::of(SplitAttrs{sizes, axis}),
             .reference = reference});
}

void joins(Cases& cases) {
  add_concat(cases, "rows", {numbers({2, 3}), random_tensor({4, 3}, 2)}, 0, 0);
  add_concat(cases, "columns", {numbers({2, 3}), random_tensor({2, 1}, 2), numbers({2, 37})}, -1,
             1);
  add_concat(cases, "middle axis", {numbers({2, 1, 3}), numbers({2, 4, 3})}, 1, 1);
  add_concat(cases, "a part of size 0", {numbers({2, 0}), numbers({2, 3})}, 1, 1);
  add_concat(cases, "one part", {numbers({2, 3})}, 0, 0);
  add_concat(cases, "size 0", {numbers({0, 2}), numbers({0, 3})}, 1, 1);
  add_concat(cases, "booleans", {flags({5}), flags({7})}, 0, 0);
  add_split(cases, "equal", numbers({2, 6}), {2, 2, 2}, 1, 1);
  add_split(cases, "unequal", numbers({5, 3}), {1, 4}, 0, 0);
  add_split(cases, "a part of size 0", numbers({5, 3}), {5, 0}, -2, 0);
  add_split(cases, "one part", numbers({3}), {3}, 0, 0);
}

std::int64_t padded_place(std::int64_t place, std::int64_t size, const std::string& mode) {
  if (mode == "edge") return std::clamp<std::int64_t>(place, 0, size - 1);
  if (mode == "circular") return (place + size) % size;
  if (place < 0) return -place;
  return place < size ? place : 2 * size - 2 - place;
}

Shape padded_shape(Shape shape, const Ints& widths) {
  for (std::size_t i = 0; i < widths.size(); ++i) shape[static_cast<int>(i / 2)] += widths[i];
  return shape;
}

void add_pad_by_copies(Cases& cases, const std::string& label, const Shape& from,
                       const Ints& widths, const std::string& mode) {
  const Shape padded = padded_shape(from, widths);
  const Places source = [=](Ints at) {
    for (std::size_t i = 0; i < at.size(); ++i)
      at[i] = padded_place(at[i] - widths[2 * i], from[static_cast<int>(i)], mode);
    return at;
  };
  cases.add("pad", label, numbers(from), Attrs::of(PadAttrs{widths, 0.0, mode}), padded, source);
  cases.add_sum("pad_backward", label, numbers(padded), Attrs::of(PadBackwardAttrs{widths, mode}),
                from, source);
}

void add_pad_by_value(Cases& cases, const std::string& label, const Shape& from, const Ints& widths,
                      double value) {
  const auto reference = [=](const Tensors& in) -> Tensors {
    Array result(padded_shape(from, widths), in[0].dtype());
    for_each_coordinate(result.shape(), [&](const Ints& at) { result(at) = value; });
    Array values(in[0]);
    for_each_coordinate(from, [&](Ints at) {
      const double kept = values(at);
      for (std::size_t i = 0; i < at.size(); ++i) at[i] += widths[2 * i];
      result(at) = kept;
    });
    return {result.tensor()};
  };
  cases.add({.op = "pad",
             .label = label,
             .inputs = {numbers(from)},
             .attrs = Attrs::of(PadAttrs{widths, value, "constant"}),
             .reference = reference});
}

void pads(Cases& cases) {
  add_pad_by_value(cases, "zeros", {2, 3}, {1, 0, 2, 1}, 0.0);
  add_pad_by_value(cases, "a value", {3}, {2, 2}, -1.5);
  add_pad_by_value(cases, "scalar", {}, {}, 3.0);
  add_pad_by_value(cases, "around nothing", {0, 2}, {1, 2, 0, 0}, 1.0);
  add_pad_by_copies(cases, "edges", {2, 3}, {1, 2, 0, 3}, "edge");
  add_pad_by_copies(cases, "edges of one", {1, 1}, {2, 2, 1, 0}, "edge");
  add_pad_by_copies(cases, "reflected", {3, 4}, {2, 1, 3, 3}, "reflect");
  add_pad_by_copies(cases, "around", {3, 4}, {2, 1, 4, 4}, "circular");
  add_pad_by_copies(cases, "around one", {1, 2}, {1, 1, 0, 2}, "circular");
  add_pad_by_copies(cases, "nothing to reflect", {1, 2}, {0, 0, 1, 1}, "reflect");
}

void add_tile(Cases& cases, const std::string& label, const Shape& from, const Ints& repeats,
              const Shape& shape) {
  cases.add("tile", label, numbers(from), Attrs::of(TileAttrs{repeats}), shape,
            [=](const Ints& at) {
              Ints source(at.end() - from.rank(), at.end());
              for (int i = 0; i < from.rank(); ++i) source[static_cast<std::size_t>(i)] %= from[i];
              return source;
            });
}

void add_repeat(Cases& cases, const std::string& label, const Shape& from, std::int64_t repeats,
                int axis, int place) {
  Shape shape = from;
  shape[place] *= repeats;
  cases.add("repeat", label, numbers(from), Attrs::of(RepeatAttrs{repeats, axis}), shape,
            [=](Ints at) {
              at[static_cast<std::size_t>(place)] /= repeats;
              return at;
            });
}

void repetitions(Cases& cases) {
  add_tile(cases, "every axis", {2, 3}, {2, 3}, {4, 9});
  add_tile(cases, "fewer repeats than axes", {2, 3}, {2}, {2, 6});
  add_tile(cases, "more repeats than axes", {3}, {2, 1, 2}, {2, 1, 6});
  add_tile(cases, "scalar", {}, {3}, {3});
  add_tile(cases, "scalar as it is", {}, {}, {});
  add_tile(cases, "no times", {2, 3}, {0, 2}, {0, 6});
  add_tile(cases, "nothing", {0, 3}, {2, 2}, {0, 6});
  add_tile(cases, "many axes", {2, 1, 2, 1, 2}, {1, 2, 1, 2, 2}, {2, 2, 2, 2, 4});
  add_repeat(cases, "first axis", {2, 3}, 2, 0, 0);
  add_repeat(cases, "last axis", {2, 37}, 3, -1, 1);
  add_repeat(cases, "middle axis", {2, 3, 2}, 2, 1, 1);
  add_repeat(cases, "no times", {2, 3}, 0, 1, 1);
  add_repeat(cases, "nothing", {0, 3}, 2, 1, 1);
}

}  // namespace

std::vector<OpCase> shape_cases() {
  Cases cases;
  reshapes(cases);
  transposes(cases);
  expands(cases);
  size_one_axes(cases);
  slices(cases);
  flips(cases);
  rolls(cases);
  joins(cases);
  pads(cases);
  repetitions(cases);
  return cases.take();
}

}  // namespace lockstep::testing
