// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/unique.h"

#include <algorithm>
#include <numeric>

#include "lockstep/ops/index_ops.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/shape_ops.h"

namespace lockstep {
namespace {

using Positions = std::vector<std::int64_t>;

void check_readable(const char* op, const Tensor& x) {
  detail::check_defined(op, x);
  if (x.is_symbolic())
    throw Unsupported(
        "{}: the result's shape depends on what the input contains, so it cannot be traced into a "
        "graph",
        op);
}

// Calls f with the elements, row major, in a type that compares as they do.
template <class F>
void visit_elements(const Tensor& x, F&& f) {
  const Tensor here = x.to(cpu());
  switch (x.dtype()) {
    case DType::float64: return f(here.to_vector<double>());
    case DType::int64: return f(here.to_vector<std::int64_t>());
    case DType::int32: return f(here.to_vector<std::int32_t>());
    case DType::int16: return f(here.to_vector<std::int16_t>());
    case DType::int8: return f(here.to_vector<std::int8_t>());
    case DType::uint8:
    case DType::boolean: return f(here.to_vector<std::uint8_t>());
    default: return f(here.to_vector<float>());
  }
}

Tensor as_tensor(const Positions& list, const Shape& shape, const Tensor& like) {
  return Tensor::from(list, shape, like.device());
}

std::int64_t size_of(const Positions& list) { return static_cast<std::int64_t>(list.size()); }

// Where elements stand that are not 0, in row-major order.
Positions places_of_nonzeros(const Tensor& x) {
  Positions places;
  visit_elements(x, [&](const auto& elements) {
    for (std::size_t i = 0; i < elements.size(); ++i)
      if (elements[i] != 0) places.push_back(static_cast<std::int64_t>(i));
  });
  return places;
}

struct Groups {
  Positions first;  // where in x an element of each group stands
  Positions inverse;
  Positions counts;
};

template <class T>
Groups group(const std::vector<T>& elements) {
  const auto at = [&](std::int64_t i) { return elements[static_cast<std::size_t>(i)]; };
  Positions order(elements.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const bool a_is_number = at(a) == at(a);
    return a_is_number && (at(b) != at(b) || at(a) < at(b));
  });
  Groups groups;
  groups.inverse.resize(elements.size());
  for (std::int64_t place : order) {
    if (groups.first.empty() || at(groups.first.back()) != at(place)) {
      groups.first.push_back(place);
      groups.counts.push_back(0);
    }
    ++groups.counts.back();
    groups.inverse[static_cast<std::size_t>(place)] = size_of(groups.first) - 1;
  }
  return groups;
}

}  // namespace

Tensor nonzero(const Tensor& x) {
  check_readable("nonzero", x);
  const Positions places = places_of_nonzeros(x);
  Positions coordinates(places.size() * static_cast<std::size_t>(x.rank()));
  std::size_t end = 0;
  for (std::int64_t place : places) {
    end += static_cast<std::size_t>(x.rank());
    std::size_t next = end;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      coordinates[--next] = place % x.shape()[axis];
      place /= x.shape()[axis];
    }
  }
  return as_tensor(coordinates, {size_of(places), x.rank()}, x);
}

Unique unique(const Tensor& x) {
  check_readable("unique", x);
  Groups groups;
  visit_elements(x, [&](const auto& elements) { groups = group(elements); });
  const Shape count{size_of(groups.first)};
  const Tensor flat = reshape(x.detach(), {x.numel()});
  return {take(flat, as_tensor(groups.first, count, x)), as_tensor(groups.inverse, x.shape(), x),
          as_tensor(groups.counts, count, x)};
}

}  // namespace lockstep
