// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "lockstep/ops/matrix_parts_attrs.h"
#include "tests/ops/coordinates.h"
#include "tests/ops/op_cases.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;
using Cases = std::vector<OpCase>;

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();

Tensor as_type(const Tensor& x, DType dtype) {
  const Tensor result = Tensor::empty(x.shape(), dtype);
  result.assign(x);
  return result;
}

void add_triangle(Cases& cases, const std::string& op, const Tensor& x, std::int64_t diagonal) {
  const bool lower = op == "tril";
  cases.push_back({.op = op,
                   .label = x.info().str() + " " + std::to_string(diagonal),
                   .inputs = {x},
                   .attrs = Attrs::of(TriangleAttrs{diagonal}),
                   .reference = [=](const Tensors& in) -> Tensors {
                     Array result(in[0]);
                     for_each_coordinate(in[0].shape(), [&](const Ints& at) {
                       const std::int64_t above = at[at.size() - 1] - at[at.size() - 2];
                       if (lower ? above > diagonal : above < diagonal) result(at) = 0.0;
                     });
                     return {result.tensor()};
                   }});
}

// For each place of the diagonal, the place in x.
std::function<Ints(const Ints&)> on_diagonal(const DiagonalAttrs& a, int rank) {
  const auto rows = static_cast<std::size_t>(normalize_axis("", a.axis1, rank));
  const auto columns = static_cast<std::size_t>(normalize_axis("", a.axis2, rank));
  return [=](const Ints& at) {
    Ints place(static_cast<std::size_t>(rank));
    std::size_t next = 0;
    for (std::size_t i = 0; i < place.size(); ++i)
      if (i != rows && i != columns) place[i] = at[next++];
    place[rows] = at.back() + std::max<std::int64_t>(0, -a.offset);
    place[columns] = at.back() + std::max<std::int64_t>(0, a.offset);
    return place;
  };
}

void add_diagonal(Cases& cases, const Tensor& x, const DiagonalAttrs& a, const Shape& shape) {
  const auto place = on_diagonal(a, x.rank());
  cases.push_back({.op = "diagonal",
                   .label = x.info().str(),
                   .inputs = {x},
                   .attrs = Attrs::of(a),
                   .reference = [=](const Tensors& in) -> Tensors {
                     return {from_places(in[0], shape, place)};
                   }});
  const Shape whole = x.shape();
  cases.push_back(
      {.op = "diagonal_backward",
       .label = whole.str(),
       .inputs = {as_type(random_tensor(shape, 42), x.dtype())},
       .attrs = Attrs::of(DiagonalBackwardAttrs{whole.vector(), a.offset, a.axis1, a.axis2}),
       .reference = [=](const Tensors& in) -> Tensors {
         return {added_at_places(in[0], whole, place)};
       }});
}

}  // namespace

std::vector<OpCase> matrix_parts_cases() {
  Cases cases;
  for (const std::string op : {"tril", "triu"}) {
    for (std::int64_t diagonal : {0, 1, -1, 3, -4, 40})
      for (const Shape& shape : {Shape{4, 4}, Shape{2, 5, 3}, Shape{3, 7}})
        add_triangle(cases, op, random_tensor(shape, 41), diagonal);
    for (std::int64_t diagonal : {kFar, -kFar})
      add_triangle(cases, op, random_tensor({3, 2}, 41), diagonal);
    for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}, Shape{0, 2, 2}, Shape{1, 1}})
      add_triangle(cases, op, random_tensor(shape, 41), 0);
    for (DType dtype : {DType::boolean, DType::int8, DType::int16, DType::int64})
      add_triangle(cases, op, as_type(random_indices({3, 4}, 41, 0, 9), dtype), 1);
  }
  add_diagonal(cases, random_tensor({4, 4}, 43), {}, {4});
  add_diagonal(cases, random_tensor({3, 5}, 43), {1}, {3});
  add_diagonal(cases, random_tensor({3, 5}, 43), {4}, {1});
  add_diagonal(cases, random_tensor({5, 3}, 43), {-2}, {3});
  add_diagonal(cases, random_tensor({3, 5}, 43), {9}, {0});
  add_diagonal(cases, random_tensor({2, 3, 4}, 43), {0, 0, 2}, {3, 2});
  add_diagonal(cases, random_tensor({2, 3, 4}, 43), {1, -1, 0}, {3, 1});
  add_diagonal(cases, random_tensor({0, 3}, 43), {}, {0});
  add_diagonal(cases, as_type(random_indices({3, 3}, 43, 0, 9), DType::int32), {-1}, {2});
  return cases;
}

}  // namespace lockstep::testing
