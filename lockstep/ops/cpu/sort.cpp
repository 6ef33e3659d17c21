// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/sort.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "lockstep/ops/index_attrs.h"

namespace lockstep::kernels {
namespace {

template <class T>
using KeyOf =
    std::conditional_t<std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>, float, T>;

template <class T>
struct Entry {
  KeyOf<T> key;
  std::int64_t position;
};

// A total order: NaN after every number, equal keys by position. It makes an unstable sort stable
// and every selection unique.
template <class T>
struct Before {
  bool descending;

  bool operator()(const Entry<T>& a, const Entry<T>& b) const {
    const bool a_nan = a.key != a.key;
    const bool b_nan = b.key != b.key;
    if (a_nan || b_nan) {
      if (a_nan != b_nan) return b_nan;
    } else if (a.key != b.key) {
      return descending ? b.key < a.key : a.key < b.key;
    }
    return a.position < b.position;
  }
};

// The first `count` of every line along `axis`, in order. Values may be null.
template <class T>
class LineSorter {
 public:
  LineSorter(const TensorView& x, int axis, bool descending)
      : x_(x), axis_(axis), before_{descending}, line_(static_cast<std::size_t>(x.shape[axis])) {}

  void run(std::int64_t count, T* values, std::int64_t* positions) {
    const std::int64_t size = x_.shape[axis_];
    std::int64_t inner = 1;
    for (int i = axis_ + 1; i < x_.shape.rank(); ++i) inner *= x_.shape[i];
    const std::int64_t lines = size == 0 || inner == 0 ? 0 : x_.numel() / size;
    for (std::int64_t l = 0; l < lines; ++l) {
      const std::int64_t outer = l / inner;
      const std::int64_t column = l % inner;
      load(x_.as<T>() + outer * size * inner + column, inner);
      select(count);
      const std::int64_t start = outer * count * inner + column;
      store(count, inner, values ? values + start : nullptr, positions + start);
    }
  }

 private:
  void load(const T* first, std::int64_t step) {
    first_ = first;
    for (std::size_t i = 0; i < line_.size(); ++i) {
      const auto position = static_cast<std::int64_t>(i);
      line_[i] = {static_cast<KeyOf<T>>(first[position * step]), position};
    }
  }

  void select(std::int64_t count) {
    const auto middle = line_.begin() + count;
    if (middle != line_.end()) std::nth_element(line_.begin(), middle, line_.end(), before_);
    std::sort(line_.begin(), middle, before_);
  }

  void store(std::int64_t count, std::int64_t step, T* values, std::int64_t* positions) const {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t position = line_[static_cast<std::size_t>(i)].position;
      positions[i * step] = position;
      if (values != nullptr) values[i * step] = first_[position * step];
    }
  }

  const TensorView& x_;
  int axis_;
  Before<T> before_;
  std::vector<Entry<T>> line_;
  const T* first_ = nullptr;
};

void sort_lines(const TensorView& x, int axis, bool descending, std::int64_t count,
                const TensorView* values, const TensorView& positions) {
  visit_dtype(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    LineSorter<T>(x, axis, descending)
        .run(count, values ? values->as<T>() : nullptr, positions.as<std::int64_t>());
  });
}

void run_sort(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const auto& attrs = call.attrs.as<SortAttrs>();
  const int axis = normalize_axis("sort", attrs.axis, x.shape.rank());
  sort_lines(x, axis, attrs.descending, x.shape[axis], &call.outputs[0], call.outputs[1]);
}

void run_argsort(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const auto& attrs = call.attrs.as<SortAttrs>();
  const int axis = normalize_axis("argsort", attrs.axis, x.shape.rank());
  sort_lines(x, axis, attrs.descending, x.shape[axis], nullptr, call.outputs[0]);
}

void run_topk(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const auto& attrs = call.attrs.as<TopkAttrs>();
  const int axis = normalize_axis("topk", attrs.axis, x.shape.rank());
  sort_lines(x, axis, attrs.largest, attrs.k, &call.outputs[0], call.outputs[1]);
}

constexpr KernelCandidate kSort[] = {
    {.name = "sort lines", .dtypes = kAllTypes, .direct = run_sort}};
constexpr KernelCandidate kArgsort[] = {
    {.name = "sort lines", .dtypes = kAllTypes, .direct = run_argsort}};
constexpr KernelCandidate kTopk[] = {
    {.name = "select lines", .dtypes = kAllTypes, .direct = run_topk}};

}  // namespace

std::span<const KernelCandidate> sort() { return kSort; }
std::span<const KernelCandidate> argsort() { return kArgsort; }
std::span<const KernelCandidate> topk() { return kTopk; }

}  // namespace lockstep::kernels
