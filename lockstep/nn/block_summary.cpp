// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "lockstep/graph/trace.h"
#include "lockstep/nn/block.h"
#include "lockstep/nn/detail/call_observer.h"

namespace lockstep::nn {

namespace detail {
namespace {
thread_local CallObserver* innermost = nullptr;
}

CallObserver::CallObserver() : outer_(innermost) { innermost = this; }
CallObserver::~CallObserver() { innermost = outer_; }
CallObserver* CallObserver::current() { return innermost; }

}  // namespace detail

namespace {

struct Row {
  std::string layer, output, parameters;
};

Row head() { return {"layer (type)", "output shape", "parameters"}; }

// 1234567 as "1,234,567".
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::int64_t count(const std::vector<NamedParameter>& parameters) {
  std::int64_t total = 0;
  for (const NamedParameter& named : parameters) total += named.parameter.shape().numel();
  return total;
}

void name_blocks(const Block& block, const std::string& path,
                 std::map<const Block*, std::string>& names) {
  names.emplace(&block, path);
  for (const Block::Child& child : block.children())
    name_blocks(*child.block, path.empty() ? child.name : path + "." + child.name, names);
}

// A row for each call, in the order of the calls, indented by how deep it was.
class Table final : public detail::CallObserver {
 public:
  explicit Table(const Block& root) { name_blocks(root, "", names_); }

  void begin(const Block& block) override {
    const auto name = names_.find(&block);
    std::string layer(2 * open_.size(), ' ');
    if (name != names_.end() && !name->second.empty()) layer += name->second + " ";
    open_.push_back(rows_.size());
    rows_.push_back({layer + "(" + block.description() + ")", "", ""});
  }

  void end(const Block& block, const std::vector<Tensor>& outputs) override {
    Row& row = rows_[open_.back()];
    open_.pop_back();
    for (const Tensor& output : outputs)
      row.output += (row.output.empty() ? "" : " ") + output.shape().str();
    // A parameter that several layers share is counted where it comes first.
    std::vector<NamedParameter> fresh;
    for (const NamedParameter& named : block.own_parameters())
      if (seen_.insert(named.parameter.identity()).second) fresh.push_back(named);
    row.parameters = grouped(count(fresh));
  }

  std::string str() const {
    const Widths widths = measure();
    const std::string rule(widths.layer + widths.output + widths.parameters + 4, '-');
    std::string text = line(head(), widths) + rule + "\n";
    for (const Row& row : rows_) text += line(row, widths);
    return text + rule + "\n";
  }

 private:
  struct Widths {
    std::size_t layer = 0, output = 0, parameters = 0;
    void widen(const Row& row) {
      layer = std::max(layer, row.layer.size());
      output = std::max(output, row.output.size());
      parameters = std::max(parameters, row.parameters.size());
    }
  };

  Widths measure() const {
    Widths widths;
    widths.widen(head());
    for (const Row& row : rows_) widths.widen(row);
    return widths;
  }

  static std::string line(const Row& row, const Widths& widths) {
    return fmt::format("{:<{}}  {:<{}}  {:>{}}\n", row.layer, widths.layer, row.output,
                       widths.output, row.parameters, widths.parameters);
  }

  std::map<const Block*, std::string> names_;
  std::set<const void*> seen_;
  std::vector<std::size_t> open_;
  std::vector<Row> rows_;
};

std::string totals(const std::vector<NamedParameter>& parameters) {
  std::int64_t trainable = 0, fixed = 0;
  double bytes = 0.0;
  for (const auto& [name, parameter] : parameters) {
    const std::int64_t size = parameter.shape().numel();
    (parameter.options().trainable ? trainable : fixed) += size;
    bytes += static_cast<double>(size) * static_cast<double>(item_size(parameter.dtype()));
  }
  const bool large = bytes >= 1024.0 * 1024.0;
  return fmt::format("parameters: {} ({} trainable, {} fixed), {:.1f} {}\n",
                     grouped(trainable + fixed), grouped(trainable), grouped(fixed),
                     bytes / (large ? 1024.0 * 1024.0 : 1024.0), large ? "MiB" : "KiB");
}

}  // namespace

std::string Block::summary(const std::vector<TensorInfo>& inputs) {
  Table table(*this);
  complete_shapes(inputs);
  return table.str() + totals(parameters());
}

}  // namespace lockstep::nn
