// SPDX-License-Identifier: Apache-2.0
#include "lockstep/ops/einsum.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/matmul.h"
#include "lockstep/ops/matrix_parts.h"
#include "lockstep/ops/messages.h"
#include "lockstep/ops/reduce.h"
#include "lockstep/ops/shape_ops.h"

// Operands are taken in from left to right. Each step is a batched matrix product of what has been
// made so far with the next operand: axes of both that are summed are its inner axis, axes of both
// that stay its batch, axes of one alone its rows and columns. Axes that are summed and in one
// operand alone are summed before. Transpositions are windows, which the product reads as they are.
namespace lockstep {
namespace {

// The axes of a tensor, a character each: letters, and '0' to '7' for those that "..." stands for,
// counted from the last one.
using Labels = std::string;

constexpr std::string_view kDots = "...";

struct Equation {
  std::vector<Labels> operands;  // '.' where the dots stand
  Labels result;
};

struct Labelled {
  Tensor tensor;
  Labels labels;
};

[[noreturn]] void fail(std::string_view equation, const std::string& why) {
  throw InvalidArgument("einsum: '{}': {}", equation, why);
}

bool has(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }

Labels parse_term(std::string_view equation, std::string_view term) {
  Labels labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i, 3) == kDots && !has(labels, '.')) {
      labels += '.';
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      labels += term[i];
    } else if (term[i] != ' ') {
      fail(equation, fmt::format("'{}' is no letter", term[i]));
    }
  }
  return labels;
}

// What the result has where the equation does not say: letters that occur once, sorted.
Labels implied_result(const std::vector<Labels>& operands) {
  std::map<char, int> counts;
  for (const Labels& labels : operands)
    for (char label : labels) ++counts[label];
  Labels result;
  if (counts.count('.')) result += '.';
  for (const auto& [label, count] : counts)
    if (label != '.' && count == 1) result += label;
  return result;
}

void check_result(std::string_view text, const Equation& equation) {
  for (char label : equation.result) {
    if (std::count(equation.result.begin(), equation.result.end(), label) > 1)
      fail(text, fmt::format("the result has '{}' twice", label));
    const bool known = std::any_of(equation.operands.begin(), equation.operands.end(),
                                   [&](const Labels& labels) { return has(labels, label); });
    if (!known && label != '.')
      fail(text, fmt::format("the result has '{}', which no operand has", label));
  }
}

Equation parse(std::string_view text) {
  Equation equation;
  const std::size_t arrow = text.find("->");
  std::string_view left = text.substr(0, arrow);
  for (;;) {
    const std::size_t comma = left.find(',');
    equation.operands.push_back(parse_term(text, left.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  equation.result = arrow == std::string_view::npos ? implied_result(equation.operands)
                                                    : parse_term(text, text.substr(arrow + 2));
  check_result(text, equation);
  return equation;
}

// The dots' own labels: "210" for three axes.
Labels dots(int count) {
  Labels labels;
  while (count-- > 0) labels += static_cast<char>('0' + count);
  return labels;
}

Labels with_dots(const Labels& labels, int count) {
  const std::size_t at = labels.find('.');
  return at == Labels::npos ? labels : Labels(labels).replace(at, 1, dots(count));
}

int axis_of(const Labels& labels, char label) { return static_cast<int>(labels.find(label)); }

// The diagonal of each label that occurs twice.
Labelled without_repeats(std::string_view text, Labelled x) {
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    const char label = x.labels[i];
    for (std::size_t other; (other = x.labels.find(label, i + 1)) != Labels::npos;) {
      const int a = static_cast<int>(i), b = static_cast<int>(other);
      const std::int64_t rows = x.tensor.shape()[a], columns = x.tensor.shape()[b];
      if (rows != columns)
        fail(text, fmt::format("the axes '{}' of one operand have sizes {} and {}", label, rows,
                               columns));
      x.tensor = diagonal(x.tensor, 0, a, b);
      x.labels.erase(other, 1).erase(i, 1);
      x.labels += label;
      return without_repeats(text, std::move(x));
    }
  }
  return x;
}

std::vector<Labelled> label_operands(std::string_view text, const Equation& equation,
                                     const std::vector<Tensor>& tensors, int& most_dots) {
  if (tensors.size() != equation.operands.size())
    fail(text, fmt::format("{} operands are given, {} are named", tensors.size(),
                           equation.operands.size()));
  std::vector<Labelled> operands;
  most_dots = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    detail::check_defined("einsum", tensors[i], i);
    const Labels& labels = equation.operands[i];
    const bool open = has(labels, '.');
    const int named = static_cast<int>(labels.size()) - (open ? 1 : 0);
    const int rank = tensors[i].rank();
    if (open ? rank < named : rank != named)
      fail(text, fmt::format("operand {} has shape {}, {} axes are named", i,
                             tensors[i].shape().str(), named));
    most_dots = std::max(most_dots, rank - named);
    operands.push_back(without_repeats(text, {tensors[i], with_dots(labels, rank - named)}));
  }
  return operands;
}

// The size of each label. Axes of size 1 broadcast.
std::map<char, std::int64_t> sizes_of(std::string_view text,
                                      const std::vector<Labelled>& operands) {
  std::map<char, std::int64_t> sizes;
  for (const auto& [tensor, labels] : operands)
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::int64_t size = tensor.shape()[static_cast<int>(i)];
      std::int64_t& known = sizes.emplace(labels[i], size).first->second;
      if (known == 1) known = size;
      if (size != known && size != 1)
        fail(text, fmt::format("'{}' has sizes {} and {}", labels[i], known, size));
    }
  return sizes;
}

// The axes of these labels in another order; the same tensor where the order is the same.
Tensor ordered(const Labelled& x, const Labels& order) {
  if (x.labels == order) return x.tensor;
  Ints axes;
  for (char label : order) axes.push_back(axis_of(x.labels, label));
  return transpose(x.tensor, axes);
}

// Without the axes that `drop` says; they are summed.
template <class F>
Labelled summed(const Labelled& x, F&& drop) {
  Ints axes;
  Labels kept;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    if (drop(x.labels[i]))
      axes.push_back(static_cast<std::int64_t>(i));
    else
      kept += x.labels[i];
  }
  return axes.empty() ? x : Labelled{sum(x.tensor, axes), kept};
}

// Axes of size 1 that are longer in another operand are none.
Labelled without_broadcast(const Labelled& x, const std::map<char, std::int64_t>& sizes) {
  Ints axes;
  Labels kept;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    if (x.tensor.shape()[static_cast<int>(i)] == 1 && sizes.at(x.labels[i]) != 1)
      axes.push_back(static_cast<std::int64_t>(i));
    else
      kept += x.labels[i];
  }
  return axes.empty() ? x : Labelled{squeeze(x.tensor, axes), kept};
}

// Which axes a product of two has.
struct Roles {
  Labels batch, rows, columns, inner;
};

Roles roles_of(const Labelled& a, const Labelled& b, const Labels& wanted) {
  Roles roles;
  for (char label : a.labels)
    (!has(b.labels, label) ? roles.rows : has(wanted, label) ? roles.batch : roles.inner) += label;
  for (char label : b.labels)
    if (!has(a.labels, label)) roles.columns += label;
  // In the order the result has them, so that it need not be transposed.
  std::sort(roles.batch.begin(), roles.batch.end(),
            [&](char x, char y) { return wanted.find(x) < wanted.find(y); });
  return roles;
}

Ints sizes_in(const Labelled& x, const Labels& labels) {
  Ints sizes;
  for (char label : labels) sizes.push_back(x.tensor.shape()[axis_of(x.labels, label)]);
  return sizes;
}

std::int64_t product_of(const Ints& sizes) {
  std::int64_t product = 1;
  for (std::int64_t size : sizes) product *= size;
  return product;
}

// Matrices of these labels behind the batch: several axes, or none, become one.
Tensor as_matrices(const Labelled& x, const Labels& batch, const Labels& first,
                   const Labels& second) {
  const Tensor moved = ordered(x, batch + first + second);
  if (first.size() == 1 && second.size() == 1) return moved;
  Ints shape = sizes_in(x, batch);
  shape.push_back(product_of(sizes_in(x, first)));
  shape.push_back(product_of(sizes_in(x, second)));
  return reshape(moved, shape);
}

// Whether the inner axes come before the others: then the matrix is given transposed.
bool inner_first(const Labels& labels, const Labels& inner, const Labels& others) {
  return !others.empty() && labels.find(others.back()) > labels.find(inner.back());
}

// Every axis that one of the two has, those that the other lacks of size 1 in it.
Labelled multiplied(const Labelled& a, const Labelled& b, const Roles& roles) {
  const Labels all = roles.batch + roles.rows + roles.columns;
  const auto spread = [&](const Labelled& x) {
    Labels own;
    Ints shape;
    for (char label : all) {
      const bool has_it = has(x.labels, label);
      if (has_it) own += label;
      shape.push_back(has_it ? x.tensor.shape()[axis_of(x.labels, label)] : 1);
    }
    return own == all ? ordered(x, own) : reshape(ordered(x, own), shape);
  };
  return {multiply(spread(a), spread(b)), all};
}

// What has a single row is a vector, and better off on the right.
Labelled matrix_product(const Labelled& a, const Labelled& b, const Roles& roles) {
  const bool flip_a = inner_first(a.labels, roles.inner, roles.rows);
  const bool flip_b = !inner_first(b.labels, roles.inner, roles.columns) && !roles.columns.empty();
  const Tensor left = flip_a ? as_matrices(a, roles.batch, roles.inner, roles.rows)
                             : as_matrices(a, roles.batch, roles.rows, roles.inner);
  const Tensor right = flip_b ? as_matrices(b, roles.batch, roles.columns, roles.inner)
                              : as_matrices(b, roles.batch, roles.inner, roles.columns);
  Tensor product = matmul(left, right, flip_a, flip_b);
  if (roles.rows.size() != 1 || roles.columns.size() != 1) {
    Ints shape = sizes_in(a, roles.batch + roles.rows);
    for (std::int64_t size : sizes_in(b, roles.columns)) shape.push_back(size);
    product = reshape(product, shape);
  }
  return {product, roles.batch + roles.rows + roles.columns};
}

// `wanted` has the labels that the result or an operand to come has.
Labelled contract(Labelled a, Labelled b, const Labels& wanted) {
  a = summed(a, [&](char label) { return !has(b.labels, label) && !has(wanted, label); });
  b = summed(b, [&](char label) { return !has(a.labels, label) && !has(wanted, label); });
  Roles roles = roles_of(a, b, wanted);
  if (roles.rows.empty() && !roles.columns.empty()) {
    std::swap(a, b);
    std::swap(roles.rows, roles.columns);
  }
  return roles.inner.empty() ? multiplied(a, b, roles) : matrix_product(a, b, roles);
}

Tensor evaluate(std::string_view text, const std::vector<Tensor>& tensors) {
  const Equation equation = parse(text);
  int most_dots = 0;
  std::vector<Labelled> operands = label_operands(text, equation, tensors, most_dots);
  const auto sizes = sizes_of(text, operands);
  const Labels result = with_dots(equation.result, most_dots);
  DType dtype = tensors[0].dtype();
  for (Labelled& x : operands) {
    dtype = promote(dtype, x.tensor.dtype());
    x = without_broadcast(x, sizes);
  }
  Labelled total = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i) {
    Labels wanted = result;
    for (std::size_t later = i + 1; later < operands.size(); ++later)
      wanted += operands[later].labels;
    total = contract(std::move(total), operands[i], wanted);
  }
  total = summed(total, [&](char label) { return !has(result, label); });
  return cast(ordered(total, result), dtype);
}

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  return detail::named("einsum", [&] { return evaluate(equation, operands); });
}

}  // namespace lockstep
