// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/cpu/sort.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "lockstep/ops/index_attrs.h"
#include "lockstep/ops/reduce_attrs.h"

namespace lockstep::kernels {
namespace {

__extension__ using Wide = unsigned __int128;

// A number as an unsigned integer of the same order; NaN is the largest, and -0 is 0.
template <class T>
auto ordered_bits(T value) {
  if constexpr (std::is_same_v<T, double>) {
    if (value != value) return ~std::uint64_t{0};
    const auto bits = std::bit_cast<std::uint64_t>(value + 0.0);
    return bits >> 63 ? ~bits : bits | (std::uint64_t{1} << 63);
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return static_cast<std::uint64_t>(value) ^ (std::uint64_t{1} << 63);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(value)) ^ 0x80000000u;
  } else {
    const float wide = value;
    if (wide != wide) return ~std::uint32_t{0};
    const auto bits = std::bit_cast<std::uint32_t>(wide + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
  }
}

// Finds elements of every line along an axis by their order. An element and its position become one
// integer, the value above: integers compare fast, no two are equal, so an unstable sort is stable
// and every selection unique.
template <class T, class Word>
class LineSorter {
 public:
  LineSorter(const TensorView& x, int axis, bool descending)
      : x_(x), axis_(axis), descending_(descending) {}

  // The first `count` of every line, in order.
  void run(std::int64_t count, T* values, std::int64_t* positions) {
    for_each_line([&](const T* first, std::int64_t inner, std::int64_t outer, std::int64_t column) {
      if (count * 8 < x_.shape[axis_])
        keep_best(first, inner, count);
      else
        sort_all(first, inner, count);
      const std::int64_t start = outer * count * inner + column;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto position = position_of(line_[static_cast<std::size_t>(i)]);
        positions[start + i * inner] = position;
        if (values != nullptr) values[start + i * inner] = first[position * inner];
      }
    });
  }

  // The middle one of every line.
  void medians(T* values, std::int64_t* positions) {
    for_each_line([&](const T* first, std::int64_t inner, std::int64_t outer, std::int64_t column) {
      const std::int64_t position = median_of(first, inner);
      positions[outer * inner + column] = position;
      values[outer * inner + column] = first[position * inner];
    });
  }

 private:
  // f(first element, step to the next, how many blocks of lines are before, place in the block)
  template <class F>
  void for_each_line(F&& f) {
    const std::int64_t size = x_.shape[axis_];
    std::int64_t inner = 1;
    for (int i = axis_ + 1; i < x_.shape.rank(); ++i) inner *= x_.shape[i];
    const std::int64_t lines = size == 0 || inner == 0 ? 0 : x_.numel() / size;
    for (std::int64_t l = 0; l < lines; ++l) {
      const std::int64_t outer = l / inner;
      const std::int64_t column = l % inner;
      f(x_.as<T>() + outer * size * inner + column, inner, outer, column);
    }
  }

  static std::int64_t position_of(Word word) { return static_cast<std::int64_t>(word & kLow); }

  static constexpr int kShift = static_cast<int>(sizeof(Word)) * 4;
  static constexpr Word kLow = (Word{1} << kShift) - 1;

  Word word(const T* first, std::int64_t step, std::int64_t position) const {
    auto bits = ordered_bits(first[position * step]);
    if (descending_) bits = ~bits;
    return Word{bits} << kShift | static_cast<Word>(position);
  }

  void read_line(const T* first, std::int64_t step) {
    line_.resize(static_cast<std::size_t>(x_.shape[axis_]));
    for (std::size_t i = 0; i < line_.size(); ++i)
      line_[i] = word(first, step, static_cast<std::int64_t>(i));
  }

  // A NaN's bits are all set, which no number's are.
  std::int64_t median_of(const T* first, std::int64_t step) {
    if constexpr (!std::is_integral_v<T>)
      for (std::int64_t i = 0; i < x_.shape[axis_]; ++i)
        if (~ordered_bits(first[i * step]) == 0) return i;
    read_line(first, step);
    const auto middle = line_.begin() + (x_.shape[axis_] - 1) / 2;
    std::nth_element(line_.begin(), middle, line_.end());
    return position_of(*middle);
  }

  void sort_all(const T* first, std::int64_t step, std::int64_t count) {
    read_line(first, step);
    const auto middle = line_.begin() + count;
    if (middle != line_.end()) std::nth_element(line_.begin(), middle, line_.end());
    std::sort(line_.begin(), middle);
  }

  // A heap of the best so far: most elements of a long line are only compared with its worst.
  void keep_best(const T* first, std::int64_t step, std::int64_t count) {
    line_.clear();
    if (count == 0) return;
    for (std::int64_t i = 0; i < x_.shape[axis_]; ++i) {
      const Word entry = word(first, step, i);
      if (i >= count) {
        if (entry > line_.front()) continue;
        std::pop_heap(line_.begin(), line_.end());
        line_.pop_back();
      }
      line_.push_back(entry);
      std::push_heap(line_.begin(), line_.end());
    }
    std::sort_heap(line_.begin(), line_.end());
  }

  const TensorView& x_;
  int axis_;
  bool descending_;
  std::vector<Word> line_;
};

// Calls f(TypeTag<T>{}, sorter) with the LineSorter for x.
template <class F>
void with_sorter(const TensorView& x, int axis, bool descending, F&& f) {
  visit_dtype(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (sizeof(T) <= 4 && x.shape[axis] <= UINT32_MAX)
      f(tag, LineSorter<T, std::conditional_t<sizeof(T) <= 4, std::uint64_t, Wide>>(x, axis,
                                                                                    descending));
    else
      f(tag, LineSorter<T, Wide>(x, axis, descending));
  });
}

// Values may be null.
void sort_lines(const TensorView& x, int axis, bool descending, std::int64_t count,
                const TensorView* values, const TensorView& positions) {
  with_sorter(x, axis, descending, [&](auto tag, auto&& sorter) {
    using T = typename decltype(tag)::type;
    sorter.run(count, values ? values->as<T>() : nullptr, positions.as<std::int64_t>());
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

void run_median(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const int axis = normalize_axis("median", call.attrs.as<ArgAttrs>().axis, x.shape.rank());
  with_sorter(x, axis, false, [&](auto tag, auto&& sorter) {
    using T = typename decltype(tag)::type;
    sorter.medians(call.outputs[0].as<T>(), call.outputs[1].as<std::int64_t>());
  });
}

constexpr KernelCandidate kSort[] = {
    {.name = "sort lines", .dtypes = kAllTypes, .direct = run_sort}};
constexpr KernelCandidate kArgsort[] = {
    {.name = "sort lines", .dtypes = kAllTypes, .direct = run_argsort}};
constexpr KernelCandidate kTopk[] = {
    {.name = "select lines", .dtypes = kAllTypes, .direct = run_topk}};
constexpr KernelCandidate kMedian[] = {
    {.name = "select lines", .dtypes = kAllTypes, .direct = run_median}};

}  // namespace

std::span<const KernelCandidate> sort() { return kSort; }
std::span<const KernelCandidate> argsort() { return kArgsort; }
std::span<const KernelCandidate> topk() { return kTopk; }
std::span<const KernelCandidate> median() { return kMedian; }

}  // namespace lockstep::kernels
