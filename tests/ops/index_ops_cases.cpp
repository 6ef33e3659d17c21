// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/index_attrs.h"
#include "tests/ops/coordinates.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;

Tensor numbers(const Shape& shape) { return random_tensor(shape, 11); }

Tensor as_int32(const Tensor& indices) {
  const Tensor result = Tensor::empty(indices.shape(), DType::int32);
  result.assign(indices);
  return result;
}

Tensor whole_numbers(const Shape& shape, DType dtype) {
  const Tensor result = Tensor::empty(shape, dtype);
  result.assign(random_indices(shape, 5, -20, 20));
  return result;
}

// The place in the array that out[at] of take(axis) comes from.
auto taken_from(const Tensor& indices, int axis, std::int64_t size) {
  return [=, index = Array(indices)](const Ints& at) {
    const auto middle = at.begin() + axis;
    const auto rest = middle + indices.rank();
    Ints source(at.begin(), middle);
    const auto place = static_cast<std::int64_t>(index(Ints(middle, rest)));
    source.push_back(place < 0 ? place + size : place);
    source.insert(source.end(), rest, at.end());
    return source;
  };
}

Shape taken_shape(const Shape& from, const Shape& indices, int axis) {
  Shape shape(from.span().first(static_cast<std::size_t>(axis)));
  for (std::int64_t d : indices) shape.push_back(d);
  for (int i = axis + 1; i < from.rank(); ++i) shape.push_back(from[i]);
  return shape;
}

using Cases = std::vector<OpCase>;

// Rows for take and take_backward.
void add_take(Cases& cases, const std::string& label, const Shape& from, const Tensor& indices,
              int axis, int place) {
  const Shape shape = taken_shape(from, indices.shape(), place);
  const auto source = taken_from(indices, place, from[place]);
  cases.push_back({.op = "take",
                   .label = label,
                   .inputs = {numbers(from), indices},
                   .attrs = Attrs::of(AlongAxisAttrs{axis}),
                   .reference = [=](const Tensors& in) -> Tensors {
                     return {from_places(in[0], shape, source)};
                   }});
  cases.push_back({.op = "take_backward",
                   .label = label,
                   .inputs = {numbers(shape), indices},
                   .attrs = Attrs::of(TakeBackwardAttrs{place, from[place]}),
                   .reference = [=](const Tensors& in) -> Tensors {
                     return {added_at_places(in[0], from, source)};
                   }});
}

// Rows for embedding and embedding_backward.
void add_embedding(Cases& cases, const std::string& label, const Shape& table,
                   const Tensor& indices) {
  const Shape shape = taken_shape(table, indices.shape(), 0);
  const auto source = taken_from(indices, 0, table[0]);
  cases.push_back({.op = "embedding",
                   .label = label,
                   .inputs = {indices, numbers(table)},
                   .attrs = Attrs::of(EmbeddingAttrs{}),
                   .reference = [=](const Tensors& in) -> Tensors {
                     return {from_places(in[1], shape, source)};
                   }});
  cases.push_back({.op = "embedding_backward",
                   .label = label,
                   .inputs = {numbers(shape), indices},
                   .attrs = Attrs::of(EmbeddingBackwardAttrs{table[0]}),
                   .reference = [=](const Tensors& in) -> Tensors {
                     return {added_at_places(in[0], table, source)};
                   },
                   // Many rows meet in one, and halves are summed in float32.
                   .tolerance = 1e-4});
}

void rows(Cases& cases) {
  add_embedding(cases, "sentences", {7, 5}, random_indices({2, 3}, 1, 0, 7));
  add_embedding(cases, "wide rows", {3, 37}, random_indices({4}, 1, 0, 3));
  add_embedding(cases, "many indices", {9, 3}, random_indices({100}, 1, 0, 9));
  add_embedding(cases, "one index", {4, 3}, random_indices({}, 1, 0, 4));
  add_embedding(cases, "no index", {4, 3}, random_indices({0, 2}, 1, 0, 4));
  add_embedding(cases, "rows of size 0", {4, 0}, random_indices({3}, 1, 0, 4));
  add_embedding(cases, "int32", {4, 3}, as_int32(random_indices({5}, 1, 0, 4)));
  add_take(cases, "rows", {5, 3}, random_indices({4}, 2, 0, 5), 0, 0);
  add_take(cases, "columns", {3, 5}, random_indices({2, 2}, 2, 0, 5), -1, 1);
  add_take(cases, "middle axis", {2, 4, 3}, random_indices({5}, 2, 0, 4), 1, 1);
  add_take(cases, "from the end", {6}, random_indices({9}, 2, -6, 6), 0, 0);
  add_take(cases, "one index", {4, 3}, random_indices({}, 2, 0, 4), 0, 0);
  add_take(cases, "no index", {4, 3}, random_indices({0}, 2, 0, 4), 1, 1);
  add_take(cases, "int32", {4, 3}, as_int32(random_indices({3}, 2, -4, 4)), 0, 0);
}

std::int64_t from_end(double index, std::int64_t size) {
  const auto place = static_cast<std::int64_t>(index);
  return place < 0 ? place + size : place;
}

void add_gather(Cases& cases, const std::string& label, const Tensor& x, const Tensor& index,
                int axis, int place) {
  cases.push_back({.op = "gather",
                   .label = label,
                   .inputs = {x, index},
                   .attrs = Attrs::of(AlongAxisAttrs{axis}),
                   .reference = [=](const Tensors& in) -> Tensors {
                     Array at_axis(in[1]);
                     return {from_places(in[0], index.shape(), [&](Ints at) {
                       const double found = at_axis(at);
                       at[static_cast<std::size_t>(place)] = from_end(found, x.shape()[place]);
                       return at;
                     })};
                   }});
}

void add_pick(Cases& cases, const std::string& label, const Shape& shape, const Tensor& index,
              int axis, int place) {
  cases.push_back({.op = "pick",
                   .label = label,
                   .inputs = {numbers(shape), index},
                   .attrs = Attrs::of(AlongAxisAttrs{axis}),
                   .reference = [=](const Tensors& in) -> Tensors {
                     Array at_axis(in[1]);
                     return {from_places(in[0], index.shape(), [&](Ints at) {
                       const std::int64_t found = from_end(at_axis(at), shape[place]);
                       at.insert(at.begin() + place, found);
                       return at;
                     })};
                   }});
}

void add_scatter(Cases& cases, const std::string& label, const Tensor& x, const Tensor& index,
                 const Tensor& updates, int axis, int place,
                 const std::string& op = "scatter_add") {
  cases.push_back({.op = op,
                   .label = label,
                   .inputs = {x, index, updates},
                   .attrs = Attrs::of(AlongAxisAttrs{axis}),
                   .reference = [=](const Tensors& in) -> Tensors {
                     Array result(in[0]);
                     Array at_axis(in[1]);
                     Array added(in[2]);
                     for_each_coordinate(index.shape(), [&](Ints at) {
                       const double update = added(at);
                       const double found = at_axis(at);
                       at[static_cast<std::size_t>(place)] = from_end(found, x.shape()[place]);
                       result(at) = op == "scatter" ? update : result(at) + update;
                     });
                     return {result.tensor()};
                   }});
}

// Most places are named more than once.
void written(Cases& cases) {
  add_scatter(cases, "rows", numbers({4, 3}), random_indices({6, 3}, 5, 0, 4), numbers({6, 3}), 0,
              0, "scatter");
  add_scatter(cases, "columns", numbers({3, 5}), random_indices({2, 9}, 5, -5, 5), numbers({2, 9}),
              -1, 1, "scatter");
  add_scatter(cases, "columns of every row", numbers({2, 3, 5}),
              random_indices({2, 3, 9}, 5, -5, 5), numbers({2, 3, 9}), 2, 2, "scatter");
  add_scatter(cases, "a corner", numbers({3, 4, 5}), random_indices({2, 6, 3}, 3, 0, 4),
              numbers({2, 6, 3}), 1, 1, "scatter");
  add_scatter(cases, "nothing", numbers({3, 5}), random_indices({0, 2}, 5, 0, 5), numbers({0, 2}),
              1, 1, "scatter");
  for (DType dtype : {DType::int8, DType::int16, DType::boolean, DType::int64})
    add_scatter(cases, "whole numbers", Tensor::full({5}, 0, dtype),
                as_int32(random_indices({8}, 5, 0, 5)), Tensor::full({8}, 1, dtype), 0, 0,
                "scatter");
}

void elements(Cases& cases) {
  add_gather(cases, "rows", numbers({4, 3}), random_indices({2, 3}, 3, 0, 4), 0, 0);
  add_gather(cases, "columns", numbers({3, 5}), random_indices({3, 40}, 3, -5, 5), -1, 1);
  add_gather(cases, "a corner", numbers({3, 4, 5}), random_indices({2, 6, 3}, 3, 0, 4), 1, 1);
  add_gather(cases, "no index", numbers({3, 5}), random_indices({3, 0}, 3, 0, 5), 1, 1);
  add_gather(cases, "vector", numbers({5}), as_int32(random_indices({7}, 3, 0, 5)), 0, 0);
  add_gather(cases, "int8", whole_numbers({3, 4}, DType::int8), random_indices({3, 2}, 3, 0, 4), 1,
             1);
  add_pick(cases, "classes", {6, 4}, random_indices({6}, 4, 0, 4), -1, 1);
  add_pick(cases, "first axis", {4, 2, 3}, random_indices({2, 3}, 4, -4, 4), 0, 0);
  add_pick(cases, "vector", {5}, as_int32(random_indices({}, 4, 0, 5)), 0, 0);
  add_pick(cases, "no row", {0, 4}, random_indices({0}, 4, 0, 4), 1, 1);
  add_scatter(cases, "rows", numbers({4, 3}), random_indices({6, 3}, 5, 0, 4), numbers({6, 3}), 0,
              0);
  add_scatter(cases, "columns", numbers({3, 5}), random_indices({2, 9}, 5, -5, 5), numbers({2, 9}),
              -1, 1);
  add_scatter(cases, "columns of every row", numbers({2, 3, 5}),
              random_indices({2, 3, 9}, 5, -5, 5), numbers({2, 3, 9}), 2, 2);
  add_scatter(cases, "nothing", numbers({3, 5}), random_indices({0, 2}, 5, 0, 5), numbers({0, 2}),
              1, 1);
  for (DType dtype : {DType::int8, DType::uint8, DType::int16, DType::int32, DType::int64})
    add_scatter(cases, "whole numbers", Tensor::full({5}, 3, dtype),
                as_int32(random_indices({8}, 5, 0, 5)), Tensor::full({8}, 2, dtype), 0, 0);
}

void add_one_hot(Cases& cases, const std::string& label, const Tensor& indices, std::int64_t depth,
                 DType dtype) {
  Shape shape = indices.shape();
  shape.push_back(depth);
  cases.push_back({.op = "one_hot",
                   .label = label,
                   .inputs = {indices},
                   .attrs = Attrs::of(OneHotAttrs{depth, dtype}),
                   .reference = [=](const Tensors& in) -> Tensors {
                     Array result(shape, dtype);
                     Array hot(in[0]);
                     for_each_coordinate(in[0].shape(), [&](Ints at) {
                       const double place = hot(at);
                       at.push_back(static_cast<std::int64_t>(place));
                       result(at) = 1.0;
                     });
                     return {result.tensor()};
                   }});
}

void add_ravel(Cases& cases, const std::string& label, const Tensors& indices, const Shape& shape,
               const Shape& dims) {
  const auto reference = [=](const Tensors& in) -> Tensors {
    Array result(shape, DType::int64);
    for_each_coordinate(shape, [&](const Ints& at) {
      for (std::size_t axis = 0; axis < in.size(); ++axis) {
        const Shape& own = in[axis].shape();
        Ints place(at.end() - own.rank(), at.end());
        for (int i = 0; i < own.rank(); ++i)
          if (own[i] == 1) place[static_cast<std::size_t>(i)] = 0;
        const std::int64_t size = dims[static_cast<int>(axis)];
        result(at) = result(at) * static_cast<double>(size) +
                     static_cast<double>(from_end(Array(in[axis])(place), size));
      }
    });
    return {result.tensor()};
  };
  cases.push_back({.op = "ravel_index",
                   .label = label,
                   .inputs = indices,
                   .attrs = Attrs::of(RavelIndexAttrs{dims.vector()}),
                   .reference = reference});
}

void made_of_indices(Cases& cases) {
  add_one_hot(cases, "classes", random_indices({6}, 6, 0, 4), 4, DType::float32);
  add_one_hot(cases, "grid", as_int32(random_indices({2, 3}, 6, 0, 5)), 5, DType::bfloat16);
  add_one_hot(cases, "booleans", random_indices({3}, 6, 0, 2), 2, DType::boolean);
  add_one_hot(cases, "one", random_indices({}, 6, 0, 3), 3, DType::int64);
  add_one_hot(cases, "none", random_indices({0}, 6, 0, 3), 3, DType::float64);
  add_ravel(cases, "pairs", {random_indices({5}, 8, -3, 3), random_indices({5}, 9, -4, 4)}, {5},
            {3, 4});
  add_ravel(cases, "broadcast",
            {random_indices({3, 1}, 8, 0, 2), as_int32(random_indices({4}, 9, 0, 4)),
             random_indices({}, 10, 0, 5)},
            {3, 4}, {2, 4, 5});
  add_ravel(cases, "none", {random_indices({0}, 8, 0, 2)}, {0}, {2});
}

}  // namespace

std::vector<OpCase> index_cases() {
  Cases cases;
  rows(cases);
  elements(cases);
  written(cases);
  made_of_indices(cases);
  return cases;
}

}  // namespace lockstep::testing
