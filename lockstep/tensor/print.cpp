// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <ostream>

#include "lockstep/tensor/decimal.h"
#include "lockstep/tensor/tensor.h"

// The rules are NumPy's defaults: 8 digits after the point, 75 columns, and beyond 1000 elements
// three at each end of every long axis.
namespace lockstep {
namespace {

constexpr int kPlaces = 8;
constexpr std::size_t kLineWidth = 75;
constexpr std::int64_t kThreshold = 1000;
constexpr std::int64_t kEdge = 3;

using Words = std::vector<std::string>;

std::string right_aligned(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string non_finite(double value) {
  if (std::isnan(value)) return "nan";
  return value < 0 ? "-inf" : "inf";
}

bool wants_exponent(const std::vector<double>& values) {
  double largest = 0.0;
  double smallest = INFINITY;
  for (double v : values) {
    if (!std::isfinite(v) || v == 0.0) continue;
    largest = std::max(largest, std::abs(v));
    smallest = std::min(smallest, std::abs(v));
  }
  return largest > 0.0 && (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000.0);
}

std::string exponent_text(int exponent, std::size_t digits) {
  std::string text = std::to_string(std::abs(exponent));
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return (exponent < 0 ? "e-" : "e+") + text;
}

std::string padded_fraction(std::string fraction, std::size_t width, char with) {
  fraction.resize(std::max(width, fraction.size()), with);
  return fraction;
}

struct Columns {
  std::size_t whole = 0;
  std::size_t fraction = 0;
  std::size_t exponent = 2;
};

Columns measure(const std::vector<double>& values, DType dtype, bool scientific) {
  Columns columns;
  for (double v : values) {
    if (!std::isfinite(v)) continue;
    if (scientific) {
      const Decimal d = rounded_scientific(v, dtype, kPlaces);
      columns.whole = std::max<std::size_t>(columns.whole, d.negative ? 2 : 1);
      columns.fraction = std::max(columns.fraction, d.digits.size() - 1);
      columns.exponent = std::max(columns.exponent, std::to_string(std::abs(d.exponent)).size());
    } else {
      const Decimal d = rounded_positional(v, dtype, kPlaces);
      columns.whole = std::max(columns.whole, whole_part(d).size());
      columns.fraction = std::max(columns.fraction, fraction_part(d).size());
    }
  }
  return columns;
}

std::string float_word(double value, DType dtype, bool scientific, const Columns& columns) {
  if (!scientific) {
    const Decimal d = rounded_positional(value, dtype, kPlaces);
    return right_aligned(whole_part(d), columns.whole) + "." +
           padded_fraction(fraction_part(d), columns.fraction, ' ');
  }
  const Decimal d = rounded_scientific(value, dtype, kPlaces);
  const std::string whole = (d.negative ? "-" : "") + d.digits.substr(0, 1);
  return right_aligned(whole, columns.whole) + "." +
         padded_fraction(d.digits.substr(1), columns.fraction, '0') +
         exponent_text(d.exponent, columns.exponent);
}

// Numbers stand with their points in one column; nan and inf end where numbers end.
Words float_words(const std::vector<double>& values, DType dtype) {
  const bool scientific = wants_exponent(values);
  const Columns columns = measure(values, dtype, scientific);
  const bool any_finite = columns.whole > 0;
  std::size_t width = any_finite ? columns.whole + 1 + columns.fraction : 0;
  if (any_finite && scientific) width += 2 + columns.exponent;
  for (double v : values)
    if (!std::isfinite(v)) width = std::max(width, non_finite(v).size());
  Words words;
  for (double v : values)
    words.push_back(right_aligned(
        std::isfinite(v) ? float_word(v, dtype, scientific, columns) : non_finite(v), width));
  return words;
}

Words aligned(Words words) {
  std::size_t width = 0;
  for (const std::string& word : words) width = std::max(width, word.size());
  for (std::string& word : words) word = right_aligned(word, width);
  return words;
}

// The elements of `tensor` at these offsets, all of one width.
Words format_elements(const Tensor& tensor, const std::vector<std::int64_t>& offsets) {
  return visit_dtype(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* first = tensor.data<T>();
    Words words;
    if constexpr (std::is_same_v<T, bool>) {
      for (std::int64_t at : offsets) words.push_back(first[at] ? " True" : "False");
      return words;
    } else if constexpr (std::is_integral_v<T>) {
      for (std::int64_t at : offsets) words.push_back(std::to_string(first[at]));
      return aligned(std::move(words));
    } else {
      std::vector<double> values;
      for (std::int64_t at : offsets) values.push_back(static_cast<double>(first[at]));
      return float_words(values, tensor.dtype());
    }
  });
}

// A lone number is written as Python writes it: 1.0, 0.25, 1e-05.
std::string scalar_word(const Tensor& tensor) {
  if (tensor.dtype() == DType::boolean) return tensor.item() != 0.0 ? "True" : "False";
  if (!is_floating(tensor.dtype())) return format_elements(tensor, {0})[0];
  const double value = tensor.item();
  if (!std::isfinite(value)) return non_finite(value);
  const Decimal d = shortest_decimal(value, tensor.dtype());
  if (value == 0.0 || (d.exponent >= -4 && d.exponent < 16)) {
    const std::string fraction = fraction_part(d);
    return whole_part(d) + "." + (fraction.empty() ? "0" : fraction);
  }
  const std::string rest = d.digits.substr(1);
  return (d.negative ? "-" : "") + d.digits.substr(0, 1) + (rest.empty() ? "" : "." + rest) +
         exponent_text(d.exponent, 2);
}

// Brackets, line breaks and indents around words that come in row-major order.
class Printer {
 public:
  explicit Printer(const Tensor& tensor)
      : tensor_(tensor), shortened_(tensor.numel() > kThreshold) {
    collect(0, 0);
    words_ = format_elements(tensor, offsets_);
  }

  std::string str() { return nested(0, " ", kLineWidth); }

 private:
  bool is_cut(int axis) const { return shortened_ && tensor_.shape()[axis] > 2 * kEdge; }

  // Calls visit(i) for each position shown, and gap() where some are left out.
  template <class Visit, class Gap>
  void for_each_shown(int axis, Visit&& visit, Gap&& gap) const {
    const std::int64_t size = tensor_.shape()[axis];
    for (std::int64_t i = 0; i < size; ++i) {
      if (is_cut(axis) && i == kEdge) {
        gap();
        i = size - kEdge;
      }
      visit(i);
    }
  }

  void collect(int axis, std::int64_t offset) {
    if (axis == tensor_.rank()) return offsets_.push_back(offset);
    for_each_shown(
        axis, [&](std::int64_t i) { collect(axis + 1, offset + i * tensor_.strides()[axis]); },
        [] {});
  }

  std::string nested(int axis, const std::string& indent, std::size_t width) {
    return axis == tensor_.rank() - 1 ? row(axis, indent, width) : rows(axis, indent, width);
  }

  std::string row(int axis, const std::string& indent, std::size_t width) {
    std::string done;
    std::string line = indent;
    const auto add = [&](const std::string& word) {
      if (line.size() + word.size() > width - 1 && line.size() > indent.size()) {
        line.erase(line.find_last_not_of(' ') + 1);
        done += line + "\n";
        line = indent;
      }
      line += word + " ";
    };
    for_each_shown(
        axis, [&](std::int64_t) { add(words_[next_++]); }, [&] { add("..."); });
    line.pop_back();
    return "[" + (done + line).substr(indent.size()) + "]";
  }

  std::string rows(int axis, const std::string& indent, std::size_t width) {
    const std::string breaks(static_cast<std::size_t>(tensor_.rank() - axis - 1), '\n');
    std::string text;
    const auto add = [&](const std::string& part) {
      text += (text.empty() ? "" : breaks + indent) + part;
    };
    for_each_shown(
        axis, [&](std::int64_t) { add(nested(axis + 1, indent + " ", width - 1)); },
        [&] { add("..."); });
    return "[" + text + "]";
  }

  const Tensor& tensor_;
  bool shortened_;
  std::vector<std::int64_t> offsets_;
  Words words_;
  std::size_t next_ = 0;
};

std::string contents(const Tensor& tensor) {
  if (tensor.is_symbolic()) return "(a graph value)";
  if (tensor.numel() == 0) return "[]";
  if (!tensor.device().is_host()) return contents(tensor.to(cpu()));
  return tensor.rank() == 0 ? scalar_word(tensor) : Printer(tensor).str();
}

}  // namespace

std::string Tensor::str() const {
  if (!defined()) return "(undefined)";
  return contents(*this) + "\n" + info().str() + " " + device().str();
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  return stream << tensor.str();
}

}  // namespace lockstep
